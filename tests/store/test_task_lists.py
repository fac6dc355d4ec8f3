"""Lists of tasks: each is a walk along an index, and a bounded one."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from clients_app.models import Client
from tasks_app import task_lists
from tasks_app.models import Task
from tasks_app.pages import Page


def _finished(client: Client, count: int) -> list[str]:
    """Make finished tasks and return their ids, oldest first; the oldest alone has failed and is marked."""
    ids = [f"task_{number:026d}" for number in range(count)]
    now = datetime.now(UTC)
    Task.objects.bulk_create(
        Task(
            id=task_id,
            client=client,
            status="completed" if place else "failed",
            model="m",
            metadata={} if place else {"mark": "this"},
            created_at=now,
            finished_at=now,
        )
        for place, task_id in enumerate(ids)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return ids


def _page(client: Client, **parameters: Any) -> Page:
    query = QueryDict(mutable=True)
    for name, value in parameters.items():
        query.setlist(name, value if isinstance(value, list) else [value])
    return task_lists.page(client, query)


def test_a_page_looks_no_farther_than_its_bound_and_says_where_it_was(client: Client) -> None:
    ids = _finished(client, 10_050)
    first = _page(client, **{"metadata[mark]": "this"})
    assert (first.items, first.has_more) == ([], True)
    assert first.last_id == ids[50]
    second = _page(client, **{"metadata[mark]": "this", "after": ids[50]})
    assert [task.id for task in second.items] == ids[:1]
    assert not second.has_more
    backwards = _page(client, **{"metadata[mark]": "none", "before": ids[0]})
    assert (backwards.items, backwards.has_more, backwards.first_id) == ([], True, ids[10_000])
    # A state has an index: what is rare is found however many others there are.
    assert [task.id for task in _page(client, status=["failed", "running"]).items] == ids[:1]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"order": "asc"},
        {"limit": "100"},
        {"status": "failed"},
        {"status": ["failed", "completed"], "order": "asc"},
        {"model": "m"},
        {"metadata[mark]": "this"},
        {"created_after": "5", "created_before": "2000000000"},
        {"created_after": "5", "status": "completed", "model": "m"},
    ],
)
def test_every_statement_walks_along_an_index(client: Client, parameters: dict[str, Any]) -> None:
    _finished(client, 300)
    with CaptureQueriesContext(connection) as captured:
        _page(client, **parameters)
    assert captured.captured_queries
    for query in captured.captured_queries:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plan = [row[3] for row in cursor.fetchall()]
        assert all(step.startswith("SEARCH") for step in plan), (query["sql"], plan)
        assert not any("TEMP B-TREE" in step for step in plan), (query["sql"], plan)
