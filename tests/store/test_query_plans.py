"""No query that the service runs reads a whole table that grows with what the service is used for."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client as Browser

from clients_app.models import Client
from models_app.models import LanguageModel
from tasks_app import lifecycle, recovery, retention
from tasks_app.models import Task
from tasks_app.states import Status
from tests.store.tasks import finish, new_task, put, running, say

_SCAN = re.compile(
    r"SCAN (tasks|task_events|task_journal|task_inputs|task_snapshots|responses|idempotency_keys|[a-z])\b"
)
# What walks along an index of unfinished tasks alone is as long as the queue, not as the history.
_SHORT = re.compile(
    r"USING (COVERING )?INDEX (unfinished_by_claim_order|tasks_by_deadline|purged_tasks|finished_tasks)\b"
)


@pytest.fixture
def used(client: Client) -> Client:
    """A service that was used: tasks in every state, with events and journals."""
    for status in Status:
        put(new_task(client), status)
    for _ in range(20):
        _task, run = running(client)
        say(run, "One ", "two ", "three.")
        finish(run, " End.")
    return client


@contextmanager
def plans() -> Iterator[list[tuple[str, str]]]:
    """Note each step of each query's plan, with the query."""
    found: list[tuple[str, str]] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            query = re.sub(r"%\((\w+)\)s", r":\1", sql).replace("%s", "?").replace("%%", "%")
            values = (params[0] if many else params) or ()
            found.extend((row[3], sql) for row in connection.connection.execute(f"EXPLAIN QUERY PLAN {query}", values))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield found


def scans(found: list[tuple[str, str]]) -> set[str]:
    return {f"{step}: {sql}"[:400] for step, sql in found if _SCAN.search(step) and not _SHORT.search(step)}


def test_calls(used: Client) -> None:
    http = Browser(headers={"host": "127.0.0.1", "authorization": f"Bearer {used.rotate(timedelta(0))}"})
    task = Task.objects.filter(status=Status.COMPLETED)[0]
    paths = [
        "/v1/tasks",
        "/v1/tasks?limit=3&order=asc",
        f"/v1/tasks?after={task.id}",
        "/v1/tasks?status=completed,queued&created_after=1&created_before=9999999999",
        "/v1/tasks?model=m&metadata[a]=b",
        f"/v1/tasks/{task.id}",
        f"/v1/tasks/{task.id}/events?after=1",
        f"/v1/responses/{task.response.id}",
        f"/v1/responses/{task.response.id}/input_items",
        "/v1/models",
        "/metrics",
        "/readyz",
    ]
    with plans() as found:
        for path in paths:
            assert http.get(path).status_code in (200, 503), path
        assert http.delete(f"/v1/tasks/{task.id}").status_code == 204
        assert http.post(f"/v1/tasks/{new_task(used).id}/cancel").status_code == 200
    assert len(found) > len(paths)
    assert scans(found) == set()


def test_work(used: Client) -> None:
    with plans() as found:
        task, run = running(used)
        say(run, "One ")
        finish(run, "two.")
        lifecycle.cancel(new_task(used).id)
        assert Task.objects.next_claimable()
        Task.objects.count_claimable(4)
        recovery.sweep()
        recovery.recover_all()
        Task.objects.filter(pk=task.pk).update(finished_at=lifecycle.now() - timedelta(days=60))
        retention.purge()
    assert not Task.objects.filter(pk=task.pk).exists()
    assert LanguageModel.objects.count() == 0
    assert scans(found) == set()


def test_what_has_no_index_is_noticed(used: Client) -> None:
    with plans() as found:
        assert not Task.objects.filter(error_message="nobody looks for this").exists()
        Task.objects.order_by().filter(events__data="nor for this").count()
    assert len(scans(found)) == 2


def test_no_index_is_the_beginning_of_another(database: Path) -> None:
    """One that is would be written with every row and save nothing."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if not table.startswith(("tasks", "task_", "responses", "idempotency_keys", "usage", "statistics")):
                continue
            cursor.execute("SELECT name FROM pragma_index_list(%s) WHERE NOT partial", [table])
            indexes = {}
            for (name,) in cursor.fetchall():
                cursor.execute("SELECT name FROM pragma_index_info(%s) ORDER BY seqno", [name])
                indexes[name] = [column for (column,) in cursor.fetchall()]
            found += [
                (name, other)
                for (name, columns), (other, longer) in permutations(indexes.items(), 2)
                if longer[: len(columns)] == columns
            ]
    assert found == []
