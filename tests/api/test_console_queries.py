"""Lists stay fast however many tasks there are: each query walks along an index and sorts nothing."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clients_app.models import Client
from tasks_app.console import listing
from tasks_app.console.listing import Filter
from tests.store.tasks import new_task

_CURSOR = "task_01m8q23ydgpbx2517g0km03mx7"


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(),
        Filter(status="failed"),
        Filter(client="tests"),
        Filter(client="tests", status="queued", older_than=_CURSOR),
        Filter(older_than=_CURSOR),
        Filter(status="queued", newer_than=_CURSOR),
        Filter(model="m", policy="resume"),
    ],
    ids=str,
)
def test_no_list_is_sorted(client: Client, wanted: Filter) -> None:
    new_task(client)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        listing.newest(wanted, 20)
    statements = [query["sql"] for query in asked.captured_queries if 'FROM "tasks"' in query["sql"]]
    assert statements
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
            plan = "\n".join(row[3] for row in cursor.fetchall())
        assert "TEMP B-TREE" not in plan, plan


def test_as_many_are_returned_as_were_asked_for_whatever_their_priorities(client: Client) -> None:
    tasks = [new_task(client, priority=number % 3).id for number in range(9)]
    found, more = listing.newest(Filter(status="queued"), 4)
    assert ([task.id for task in found], more) == (tasks[::-1][:4], True)
    found, more = listing.newest(Filter(status="queued", newer_than=tasks[5]), 4)
    assert ([task.id for task in found], more) == (tasks[:5:-1], False)
