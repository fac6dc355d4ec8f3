"""Another process holds the database: clear answers in bounded time, and all is well again afterwards."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import pytest

from tests.api.bodies import body, error, rows
from tests.service import Service, eventually
from tests.stream import sse

# The service waits 5 s for the lock; the rest is for a machine that is busy with tests.
BOUND_SECONDS = 15
WAITING = f"task_{'w' * 26}"


@contextmanager
def locked(service: Service, mode: str) -> Iterator[None]:
    """Hold the write lock, as a backup tool or a forgotten shell would."""
    with closing(sqlite3.connect(service.data_dir / "db.sqlite3", timeout=30, isolation_level=None)) as holder:
        holder.execute(f"BEGIN {mode}")
        yield
        holder.execute("ROLLBACK")


@pytest.fixture(scope="module")
def waiting(service: Service) -> Iterator[str]:
    """A task that nobody may claim yet: it changes by nothing but what the test does."""
    service.settle()
    service.sql(
        "INSERT INTO tasks (id, client_id, model, status, claimable_at)"
        " VALUES (?, ?, 'm', 'queued', datetime('now', '+9 minutes'))",
        WAITING,
        service.client_id,
    )
    yield WAITING
    assert service.request("POST", f"/v1/tasks/{WAITING}/cancel").json()["status"] == "cancelled"
    # It was not born as tasks are, so the audit would find fault with it.
    service.sql("DELETE FROM task_events WHERE task_id = ?", WAITING)
    service.sql("DELETE FROM tasks WHERE id = ?", WAITING)


@pytest.fixture(scope="module")
def silent(service: Service, waiting: str) -> Iterator[httpx.Response]:
    """The stream of a task about which there is nothing to tell."""
    began = time.monotonic()
    with service.http() as http, http.stream("GET", f"/v1/tasks/{waiting}/events", headers=sse.ACCEPT) as answer:
        assert time.monotonic() - began < BOUND_SECONDS / 2, "the headers come before the first thing there is to tell"
        yield answer


@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
def test_writing_is_refused_in_bounded_time_and_nothing_is_left(
    service: Service, http: httpx.Client, waiting: str, silent: httpx.Response, mode: str
) -> None:
    calls: list[Callable[[], httpx.Response]] = [
        lambda: http.post("/v1/tasks", json=body(), headers={"Idempotency-Key": mode}),
        lambda: http.post("/v1/responses", json=body(), headers={"Idempotency-Key": mode}),
        lambda: http.post("/v1/responses", json=body(stream=True)),
        lambda: http.post("/v1/responses", json=body(background=True)),
        lambda: http.post(f"/v1/tasks/{waiting}/cancel"),
    ]
    service.settle(but_for=waiting)
    before = rows(service)
    with ThreadPoolExecutor(len(calls)) as threads, locked(service, mode):
        began = time.monotonic()
        answers = [threads.submit(call) for call in calls]
        # What only reads is not kept waiting by those who would write.
        assert http.get(f"/v1/tasks/{waiting}").json()["status"] == "queued"
        assert http.get("/v1/models").status_code == 200
        ready = http.get("/readyz")
        for answer in answers:
            found = error(answer.result(), 503)
            assert (found["type"], found["code"]) == ("server_error", "database_locked")
            assert int(answer.result().headers["retry-after"]) >= 1
        assert time.monotonic() - began < BOUND_SECONDS
    assert (ready.status_code, ready.json()["status"]) == (503, "not_ready")
    assert "locked" in ready.json()["checks"]["database"]["detail"]
    assert ready.json()["checks"]["disk"] == {"ok": True, "detail": None}
    assert "retry-after" in ready.headers
    assert rows(service) == before
    eventually(lambda: http.get("/readyz").status_code == 200)
    for call in calls[:2]:
        assert call().status_code in (200, 202)
        assert call().headers["idempotent-replayed"] == "true"


def test_a_silent_stream_was_kept_alive_by_comments_that_carry_no_id(silent: httpx.Response) -> None:
    ping = b": ping\n\n"
    assert first_bytes(silent, len(ping)) == ping


def first_bytes(answer: httpx.Response, count: int) -> bytes:
    received = b""
    pieces = answer.iter_raw()
    while len(received) < count:
        received += next(pieces)
    return received
