"""Pages of the admin's list of tasks: the right ones, in order, whole, and in bounded time."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clients_app.models import Client
from tasks_app.board import search
from tasks_app.board.search import Wanted
from tasks_app.models import Priority, Task
from tasks_app.states import FINISHED, Status
from tests.store.tasks import new_task, put


@pytest.fixture
def tasks(client: Client) -> list[Task]:
    """Tasks of two clients in every state, oldest first."""
    other, _ = Client.pair("other", [])
    made = []
    for number, status in enumerate([*Status, *Status, Status.COMPLETED, Status.QUEUED]):
        fields: dict[str, Any] = {
            "priority": list(Priority)[number % 3],
            "on_restart": "retry" if number % 2 else "resume",
            "metadata": {"project": "Atlas" if number % 4 == 0 else "birch"},
        }
        made.append(put(new_task(other if number % 3 == 0 else client, **fields), status))
    return made


def everything(wanted: Wanted, limit: int = 3, most: int = 1000) -> list[str]:
    """Return all pages, one after the other."""
    found: list[str] = []
    while True:
        page = search.find(wanted, limit, most)
        assert len(page.ids) <= limit
        found += page.ids
        if page.older is None:
            return found
        wanted = replace(wanted, before=page.older)


def expected(tasks: list[Task], **fields: Any) -> list[str]:
    chosen = [task for task in tasks if all(getattr(task, name) == value for name, value in fields.items())]
    return [task.pk for task in sorted(chosen, key=lambda task: task.pk, reverse=True)]


def test_pages_hold_all_tasks_newest_first(tasks: list[Task]) -> None:
    assert everything(Wanted()) == expected(tasks)


@pytest.mark.parametrize("status", list(Status))
def test_by_state_alone_and_with_the_client(tasks: list[Task], status: Status) -> None:
    assert everything(Wanted(status=status)) == expected(tasks, status=status)
    client = tasks[0].client_id
    assert everything(Wanted(status=status, client=client)) == expected(tasks, status=status, client_id=client)
    assert everything(Wanted(status=status, policy="retry")) == expected(tasks, status=status, on_restart="retry")


def test_by_policy_metadata_and_client(tasks: list[Task]) -> None:
    assert everything(Wanted(policy="retry")) == expected(tasks, on_restart="retry")
    assert everything(Wanted.said("atlas")) == expected(tasks, metadata={"project": "Atlas"})
    client = tasks[1].client_id
    assert everything(Wanted(client=client, policy="retry")) == expected(tasks, client_id=client, on_restart="retry")
    assert everything(Wanted(model="another")) == []


def test_by_the_beginning_of_an_id_and_by_age(tasks: list[Task]) -> None:
    one = tasks[3]
    assert everything(Wanted.said(f" {one.pk} ")) == [one.pk]
    assert everything(Wanted.said(one.pk.replace("task_", "resp_")[:-3].upper().replace("RESP_", "resp_"))) == [one.pk]
    assert everything(Wanted(since=one.pk)) == expected(tasks[3:])
    assert everything(Wanted.said("task_zzz")) == []


def test_where_nothing_helps_it_looks_a_bounded_way_and_says_where_to_go_on(tasks: list[Task]) -> None:
    page = search.find(Wanted.said("atlas"), most=4)
    assert (page.looked_at, page.older) == (4, tasks[-4].pk)
    assert everything(Wanted.said("atlas"), most=4) == expected(tasks, metadata={"project": "Atlas"})


@pytest.mark.parametrize("status", ["", *sorted(FINISHED), "queued"])
def test_each_page_is_a_walk_along_an_index(tasks: list[Task], status: str) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        search.find(Wanted(status=status))
    (query,) = queries.captured_queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
        plan = [row[3] for row in cursor.fetchall()]
    index = {"": "sqlite_autoindex_tasks_1", "queued": "unfinished_by_claim_order"}.get(
        status, "finished_tasks_of_client"
    )
    assert any(
        f"SEARCH tasks USING INDEX {index}" in step or f"SEARCH tasks USING COVERING INDEX {index}" in step
        for step in plan
    ), plan
    assert not [step for step in plan if step.startswith("SCAN tasks")], plan


def test_counts_are_rough_or_capped(tasks: list[Task]) -> None:
    assert search.about_how_many() == len(tasks)
    assert search.unfinished()["queued"] == len(expected(tasks, status="queued"))
    assert search.unfinished(most=2)["queued"] == 2


def test_a_task_that_is_being_removed_is_not_listed(tasks: list[Task]) -> None:
    hidden = next(task for task in tasks if task.status == "completed")
    Task.objects.filter(pk=hidden.pk).update(purged_at=hidden.created_at)
    assert hidden.pk not in everything(Wanted()) + everything(Wanted(status="completed"))
