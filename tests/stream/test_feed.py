"""Several logs as one stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from django.db import connection, connections, transaction

from clients_app.models import Client
from tasks_app import event_log, lifecycle
from tasks_app.feed import Feed, Page
from tasks_app.stream import Tail, log_reads
from tests.store.tasks import new_task

PAGES = 3


def long_task(client: Client) -> str:
    """Return a task whose log has several pages."""
    task_id = new_task(client).id
    delta = event_log.encode({"delta": "x" * 1000})
    rows = [(task_id, number, "response.output_text.delta", delta) for number in range(2, 2 + PAGES * 60)]
    with transaction.atomic():
        event_log.append_encoded(rows)  # type: ignore[arg-type]
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tasks SET last_sequence_number = %s WHERE id = %s", (rows[-1][1], task_id))
    return task_id


async def page(pages: AsyncGenerator[Page | None]) -> Page:
    async with asyncio.timeout(20):
        found = await anext(pages)
    assert found is not None
    return found


def test_a_task_with_much_to_read_stands_behind_the_others(client: Client) -> None:
    much, little = long_task(client), new_task(client).id

    async def scenario() -> list[str]:
        with Feed(Tail()) as feed:
            feed.add(much)
            feed.add(little)
            async with aclosing(feed.pages(60)) as pages:
                turns = [await page(pages) for _ in range(PAGES + 1)]
        await log_reads.run(connections.close_all)
        assert all(len(turn.entries) < 70 for turn in turns)
        return [turn.task_id for turn in turns]

    assert asyncio.run(scenario())[:3] == [much, little, much]


def test_one_large_event_is_a_page_of_its_own(client: Client) -> None:
    task_id = long_task(client)
    assert len(event_log.read_page(task_id, -1)) < 70
    with transaction.atomic():
        huge = event_log.encode({"delta": "x" * (1 << 20)})
        event_log.append_encoded([(task_id, 1000, "response.output_text.delta", huge)])  # type: ignore[list-item]
    (entry,) = event_log.read_page(task_id, 999)
    assert entry.sequence_number == 1000
    assert event_log.is_full([entry])


@pytest.mark.parametrize("again", [False, True])
def test_a_page_of_a_task_that_was_dropped_meanwhile_is_not_wanted(client: Client, *, again: bool) -> None:
    task_id = new_task(client).id

    async def scenario() -> None:
        with Feed(Tail()) as feed:
            feed.add(task_id)
            async with aclosing(feed.pages(60)) as pages:
                first = await page(pages)
                assert feed.is_current(first)
                feed.discard(task_id)
                if again:
                    feed.add(task_id, 0)
                assert not feed.is_current(first)
                if again:
                    assert [entry.sequence_number for entry in (await page(pages)).entries] == [1]
        await log_reads.run(connections.close_all)

    asyncio.run(scenario())


def test_a_lost_wake_up_costs_a_moment_and_no_event(client: Client) -> None:
    task_id = new_task(client).id

    async def scenario() -> list[str]:
        tail = Tail()
        with Feed(tail) as feed:
            feed.add(task_id)
            async with aclosing(feed.pages(60)) as pages:
                await page(pages)
                # Nobody hears anything any more.
                listener = tail._listener
                assert listener is not None
                asyncio.get_running_loop().remove_reader(listener.fileno())
                await log_reads.run(lifecycle.cancel, task_id)
                last = await page(pages)
                assert last.is_last
        assert tail._listener is None
        await log_reads.run(connections.close_all)
        return [entry.type for entry in last.entries]

    assert asyncio.run(scenario()) == ["response.cancelled"]
