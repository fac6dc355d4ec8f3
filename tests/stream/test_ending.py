"""Following a log while it ends."""

import asyncio
import threading

from django.db import connections

from clients_app.models import Client
from tasks_app import lifecycle
from tasks_app.states import EventType
from tasks_app.stream import Tail, log_reads
from tests.store.tasks import new_task


def test_a_task_that_finishes_between_two_looks_is_read_to_its_end(client: Client) -> None:
    """The follower reads, the task ends, and only then does the follower ask whether it has ended."""
    task = new_task(client)

    async def scenario() -> list[str]:
        gate = threading.Event()
        await log_reads.run(connections.close_all)  # What its thread has open is another test's database.
        # The one thread takes its work in turn: the gate, the follower's read, the cancel, the follower's question.
        gated = asyncio.ensure_future(log_reads.run(gate.wait))
        pages = Tail().follow(task.id, after=1)
        following = asyncio.ensure_future(anext(pages))
        for _ in range(5):
            await asyncio.sleep(0)  # Turns of the loop, not time: until the read stands in the queue.
        cancelled = asyncio.ensure_future(log_reads.run(lifecycle.cancel, task.id))
        await asyncio.sleep(0)
        gate.set()
        seen = [entry.type for entry in await following]
        seen += [entry.type async for page in pages for entry in page]
        await asyncio.gather(gated, cancelled)
        await log_reads.run(connections.close_all)
        return seen

    assert asyncio.run(scenario()) == [EventType.CANCELLED]
