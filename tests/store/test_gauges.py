"""What `/metrics` looks up: by indexes, at one moment, and without waiting for anybody."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connections

from clients_app.models import Client
from tasks_app import lifecycle, statistics
from tasks_app.metrics import database as queries
from tasks_app.metrics import exposition, gauges
from tasks_app.models import Priority, Task
from tasks_app.states import UNFINISHED, Status
from tests.store.tasks import new_task, put, recover, running, say

BOUND_SECONDS = 2


def test_unfinished_tasks_by_state_and_priority(client: Client) -> None:
    for number, status in enumerate(sorted(UNFINISHED)):
        for _ in range(number + 1):
            put(new_task(client), status)
    put(new_task(client), Status.COMPLETED)
    old = new_task(client, priority=Priority.BATCH)
    new_task(client, priority=Priority.BATCH)
    Task.objects.filter(pk=old.pk).update(created_at=datetime.now(UTC) - timedelta(hours=1))
    queued = sorted(UNFINISHED).index(Status.QUEUED) + 1
    found = exposition.take()
    tasks = {(status,): number + 1 for number, status in enumerate(sorted(UNFINISHED))}
    assert found[gauges.TASKS] == tasks | {("queued",): queued + 2}
    assert found[gauges.QUEUE_TASKS] == {("interactive",): 0, ("normal",): queued, ("batch",): 2}
    waits = found[gauges.QUEUE_OLDEST_WAIT]
    assert waits["interactive",] == 0
    assert 0 < waits["normal",] < 60
    assert 3600 <= waits["batch",] < 3660


def test_a_task_that_waits_to_be_resumed_keeps_no_worker_busy(client: Client) -> None:
    (left, run), _ = running(client), running(client)
    say(run, "Once")
    recover(left, "worker_died")
    found = exposition.take()
    assert found[gauges.TASKS_AWAITING_RESUME] == {(): 1}
    assert found[gauges.WORKERS_BUSY] == {(): 1}
    assert found[gauges.TASKS]["running",] == 2


def test_no_query_looks_at_tasks_that_have_finished(client: Client, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        for query, values in (
            (queries.WAITING, ()),
            (queries.OLDEST, (1,)),
            (queries.HELD, ()),
        ):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            assert "unfinished_by_claim_order (status=?" in plan[0], plan
            assert not [step for step in plan if step.startswith("SCAN")], plan


@contextmanager
def kept_for_itself(database: Path) -> Iterator[None]:
    """Hold the database so that nobody else can even read it."""
    connections.close_all()
    with closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        holder.execute("UPDATE service_config SET name = name")
        yield


def test_without_the_database_the_rest_is_told_in_time(client: Client, database: Path) -> None:
    with kept_for_itself(database):
        began = time.monotonic()
        found = exposition.take()
        text = exposition.encode("")[0].decode()
        assert time.monotonic() - began < 2 * BOUND_SECONDS
    assert found[gauges.PART_UP] == {("machine",): 1, ("database",): 0, ("engines",): 0}
    assert found[gauges.READY] == {("database",): 0, ("disk",): 1, ("runner",): 0}
    assert found[gauges.DISK_FREE][()] > 0
    assert gauges.TASKS not in found
    assert statistics.TASKS_FINISHED not in found
    assert "# TYPE lmsp_tasks_finished_total counter\n" in text


def test_a_total_that_is_not_known_to_the_end_is_not_told(client: Client, database: Path) -> None:
    """Too low a number would look like a restart of the counter, and be counted again."""
    task, run = running(client)
    say(run, "Said")
    lifecycle.cancel(task.id)
    lifecycle.finish_cancel(task.id)
    assert exposition.take()[statistics.OUTPUT_TOKENS] == {("m",): 1}
    connections.close_all()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("ALTER TABLE tasks RENAME COLUMN owner TO holder")
    found = exposition.take()
    assert found[gauges.PART_UP]["database",] == 0
    assert found[statistics.TASKS_FINISHED] == {("m", "cancelled", ""): 1}
    assert statistics.OUTPUT_TOKENS not in found


def test_a_database_that_is_gone_is_no_failure(client: Client, database: Path) -> None:
    connections.close_all()
    moved = database.with_suffix(".moved")
    database.rename(moved)
    try:
        assert exposition.take()[gauges.PART_UP]["database",] == 0
        assert not database.exists(), "it was not made anew"
    finally:
        moved.rename(database)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=1.0.0,*/*;q=0.1", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_the_format_is_the_callers_choice(client: Client, accept: str, media_type: str) -> None:
    text, chosen = exposition.encode(accept)
    assert chosen.startswith(media_type)
    assert text.endswith(b"# EOF\n") == ("openmetrics" in media_type)
