"""A follower of a log that is told to stop, at whatever moment."""

import asyncio

import pytest
from django.db import connections

from clients_app.models import Client
from tasks_app.stream import Tail, log_reads
from tests.store.tasks import new_task


@pytest.mark.parametrize("turns", range(6))
def test_a_follower_that_is_woken_and_stopped_at_the_same_moment_stops(client: Client, turns: int) -> None:
    task_id = new_task(client).id

    async def follow() -> bool:
        tail = Tail()
        pages = tail.follow(task_id)
        assert len(await anext(pages)) == 2
        waiting = asyncio.ensure_future(anext(pages))
        # Until it has read the log again, found nothing and waits.
        while not any(feed._news._waiters for feed in tail._feeds[task_id]):  # noqa: ASYNC110 - its own state has no event
            await asyncio.sleep(0.001)
        for feed in tail._feeds[task_id]:
            feed.wake(task_id)
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=2)
        stopped = waiting.cancelled()
        waiting.cancel()
        await asyncio.wait({waiting})
        await pages.aclose()
        await log_reads.run(connections.close_all)
        return stopped

    assert asyncio.run(follow())
