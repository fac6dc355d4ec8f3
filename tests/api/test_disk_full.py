"""No room on the disk: nothing is accepted that could not be finished, and readiness says why."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.db import DatabaseError, connection

from clients_app.models import Client
from lmsp_site.errors import InsufficientStorage, to_protocol
from tasks_app.models import Response, Snapshot, Task, TaskEvent
from tests.api.bodies import CHAT, body, chat, error, rows
from tests.service import Service, eventually
from tests.store.tasks import new_task


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that wants a terabyte in reserve, which no disk of a test machine has."""
    service = Service(tmp_path_factory.mktemp("full"), LMSP_MIN_FREE_MB=str(1 << 20))
    service.token = service.manage("create_client", "tests")["token"]
    service.start(ready=False)
    eventually(lambda: answers(service), 60, "the service answers")
    yield service
    service.stop()


def answers(service: Service) -> bool:
    try:
        return httpx.get(f"{service.url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_full_disk_refuses_work_and_readiness_names_it(full: Service) -> None:
    calls: list[Callable[[httpx.Client], httpx.Response]] = [
        lambda http: http.post("/v1/tasks", json=body(), headers={"Idempotency-Key": "full"}),
        lambda http: http.post("/v1/responses", json=body()),
        lambda http: http.post("/v1/responses", json=body(stream=True)),
        lambda http: http.post(CHAT, json=chat()),
        lambda http: http.post(CHAT, json=chat(stream=True)),
        lambda http: http.post("/v1/responses", json=body(background=True), headers={"Idempotency-Key": "full"}),
    ]
    with full.http() as http:
        before = rows(full)
        for call in calls:
            answer = call(http)
            found = error(answer, 507)
            assert (found["type"], found["code"]) == ("server_error", "insufficient_storage")
            assert int(answer.headers["retry-after"]) >= 1
        assert rows(full) == before
        ready = http.get("/readyz")
        assert ready.status_code == 503
        checks = ready.json()["checks"]
        assert checks["disk"]["ok"] is False
        assert "MB" in checks["disk"]["detail"]
        assert checks["database"]["ok"]
        # What is there can still be read.
        assert http.get("/healthz").status_code == 200
        assert http.get("/v1/tasks").json()["data"] == []


def create_until_refused(client: Client) -> None:
    for _ in range(10_000):
        new_task(client, metadata={"filler": "x" * 2000})


def test_what_does_not_fit_into_the_database_leaves_nothing(client: Client, database: Path) -> None:
    with connection.cursor() as cursor:
        # SQLite's own limit gives what a disk without a free block gives: SQLITE_FULL.
        cursor.execute("PRAGMA page_count")
        cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0]}")
    with pytest.raises(DatabaseError) as refused:
        create_until_refused(client)
    accepted = Task.objects.count()
    known = to_protocol(refused.value)
    assert isinstance(known, InsufficientStorage)
    assert (known.status, known.headers["Retry-After"]) == (507, "30")
    assert TaskEvent.objects.count() == 2 * accepted
    assert Response.objects.count() == Snapshot.objects.count() == accepted
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count = 1000000")
    new_task(client)
    assert Task.objects.count() == accepted + 1
