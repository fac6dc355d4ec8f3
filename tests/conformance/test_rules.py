"""Section 1: the rules of chapter 11, each observed from outside."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.api.bodies import STORY, body, error
from tests.service import Service, eventually
from tests.stream import sse

STATE_OF = {
    "response.queued": "queued",
    "response.loading": "loading",
    "response.in_progress": "running",
    "response.cancelling": "cancelling",
    "response.completed": "completed",
    "response.incomplete": "completed",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/responses"])
def test_R1_a_task_is_on_disk_before_its_202(service: Service, path: str) -> None:
    fields: dict[str, Any] = {} if path == "/v1/tasks" else {"background": True}
    with (
        closing(sqlite3.connect(service.data_dir / "db.sqlite3")) as database,
        service.http() as http,
        http.stream("POST", path, json=body(**fields), headers={"Idempotency-Key": f"R1 {path}"}) as answer,
    ):
        # The status line has come, the body has not been read yet.
        assert answer.status_code == 202
        name = answer.headers["location"].rpartition("/")[2].partition("_")[2]

        def count(table: str, column: str, kind: str = "task") -> int:
            query = f"SELECT count(*) FROM {table} WHERE {column} = ?"
            return int(database.execute(query, (f"{kind}_{name}",)).fetchone()[0])

        assert count("tasks", "id") == 1
        assert count("task_events", "task_id") >= 2
        assert count("responses", "id", "resp") == 1
        assert count("task_snapshots", "task_id") == 1
        assert count("idempotency_keys", "task_id") == 1


def test_R2_numbers_and_status_change_in_one_transaction(service: Service) -> None:
    task_id = service.create(STORY, max_output_tokens=40)["id"]
    seen: list[tuple[str, int]] = []
    with closing(sqlite3.connect(service.data_dir / "db.sqlite3", isolation_level=None)) as database:
        while not seen or seen[-1][0] != "completed":
            database.execute("BEGIN")  # One snapshot for both looks.
            status, last = database.execute(
                "SELECT status, last_sequence_number FROM tasks WHERE id = ?", (task_id,)
            ).fetchone()
            log = database.execute(
                "SELECT sequence_number, type FROM task_events WHERE task_id = ? ORDER BY sequence_number", (task_id,)
            ).fetchall()
            database.execute("COMMIT")
            assert [number for number, _ in log] == list(range(last + 1))
            assert [STATE_OF[kind] for _, kind in log if kind in STATE_OF][-1] == status
            if not seen or seen[-1] != (status, last):
                seen.append((status, last))
    assert len(seen) > 3, "the task was seen while it ran"


def test_R3_no_task_is_cancelled_and_then_completes(service: Service) -> None:
    def race(events: int) -> tuple[dict[str, Any], dict[str, Any]]:
        task_id = service.create("Hi", max_output_tokens=3)["id"]
        with service.http() as http:
            with sse.stream(http, f"/v1/tasks/{task_id}/events") as arriving:
                for _, frame in zip(range(events), arriving, strict=False):
                    assert frame
            answer = http.post(f"/v1/tasks/{task_id}/cancel")
        assert answer.status_code == 200
        return answer.json(), service.finished(task_id)

    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(race, list(range(1, 13)) * 2))
    for answered, final in outcomes:
        types = [event["type"] for event in service.events(final["id"])]
        ends = [kind for kind in types if STATE_OF.get(kind) in ("completed", "failed", "cancelled")]
        assert ends == types[-1:]
        assert STATE_OF[ends[0]] == final["status"]
        if "response.cancelling" in types:
            assert types[-2:] == ["response.cancelling", "response.cancelled"]
        # What the cancel has answered stays true.
        assert final["status"] == ("cancelled" if answered["status"] == "cancelling" else answered["status"])
    assert {final["status"] for _, final in outcomes} == {"cancelled", "completed"}
    service.check_log()


def test_R4_and_R5_retention_deletes_finished_tasks_and_no_others(service: Service) -> None:
    old = service.finished(service.create("Hi", max_output_tokens=2)["id"])
    young = service.finished(service.create("Hi", max_output_tokens=2)["id"])
    unfinished = service.create(STORY, max_output_tokens=1000)["id"]
    service.sql("UPDATE tasks SET finished_at = datetime('now', '-31 days') WHERE id = ?", old["id"])
    service.sql("UPDATE tasks SET finished_at = datetime('now', '-29 days') WHERE id = ?", young["id"])
    service.sql("UPDATE tasks SET created_at = '2001-01-01 00:00:00' WHERE id = ?", unfinished)
    purged = service.manage("purge_tasks")
    assert purged["tasks_deleted"] == 1
    assert purged["events_deleted"] == old["last_sequence_number"] + 1
    for path in (f"/v1/tasks/{old['id']}", f"/v1/tasks/{old['id']}/events", f"/v1/responses/{old['response_id']}"):
        assert error(service.request("GET", path), 404)
    for table in ("task_events", "responses", "task_snapshots"):
        assert service.sql(f"SELECT count(*) FROM {table} WHERE task_id = ?", old["id"]) == [(0,)]
    assert service.task(young["id"])["output_text"] == young["output_text"]
    with pytest.raises(sqlite3.IntegrityError, match="unfinished"):
        service.sql("DELETE FROM tasks WHERE id = ?", unfinished)
    assert eventually(lambda: service.task(unfinished)["status"] == "running", 60)
    service.request("POST", f"/v1/tasks/{unfinished}/cancel")


def test_every_invariant_holds_after_all_that_was_done(service: Service) -> None:
    service.settle()
    assert service.check_log()["tasks"] > 0
