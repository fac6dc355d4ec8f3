"""One tail for all streams: replay a task's log, then follow it, with no gap between.

A stream holds nothing but its cursor. A wake-up only makes it read the log again, so a lost one loses nothing, and
a slow reader costs what it reads and no more.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection

from tasks_app import event_log, wakeup
from tasks_app.event_log import Entry
from tasks_app.models import Task

PAGE = 500
HEARTBEAT_SECONDS = 15.0
# A wake-up can be lost; this is how late its event is then.
LOOK_ANYWAY_SECONDS = 0.25

T = TypeVar("T")


class Database:
    """Threads that keep their connections, for code on the event loop."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function` in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _usable, function, args)


def _usable(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    try:
        return function(*args)
    finally:
        # Only a connection that has failed is closed; it is opened again when it is next needed.
        connection.close_if_unusable_or_obsolete()


# Reading the log never waits behind requests, which may wait for the write lock.
log_reads = Database(1, "log-reads")
requests = Database(4, "requests")


class Tail:
    """What all streams of one process share: the listener for wake-ups, and reads that several wait for."""

    def __init__(self) -> None:
        self._followers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._reads: dict[tuple[str, int], asyncio.Task[list[Entry]]] = {}
        self._listener: wakeup.Listener | None = None

    async def follow(
        self, task_id: str, after: int = -1, *, heartbeat: float = HEARTBEAT_SECONDS
    ) -> AsyncGenerator[list[Entry]]:
        """Yield the entries after `after`, in order, as they come; end with the terminal one.

        Yields an empty list whenever nothing has come for `heartbeat` seconds. Ends as well when the task is
        finished before `after`, or deleted.
        """
        with self._listen(task_id) as woken:
            silent = 0.0
            while True:
                woken.clear()
                page = await self._read(task_id, after)
                if not page and await log_reads.run(finished, task_id):
                    # It may have finished since that read: what it wrote then is there now, and it is the last.
                    page = await log_reads.run(event_log.read, task_id, after, PAGE)
                    if not page:
                        return
                if page:
                    silent = 0.0
                    yield page
                    after = page[-1].sequence_number
                    if page[-1].is_terminal:
                        return
                    if len(page) == PAGE:
                        continue
                try:
                    # Not `wait_for`: in Python 3.11 it swallows a cancel that comes together with the wake-up.
                    async with asyncio.timeout(LOOK_ANYWAY_SECONDS):
                        await woken.wait()
                except TimeoutError:
                    silent += LOOK_ANYWAY_SECONDS
                    if silent >= heartbeat:
                        silent = 0.0
                        yield []

    @contextmanager
    def _listen(self, task_id: str) -> Iterator[asyncio.Event]:
        self._start()
        woken = asyncio.Event()
        self._followers[task_id].add(woken)
        try:
            yield woken
        finally:
            self._followers[task_id].discard(woken)
            if not self._followers[task_id]:
                del self._followers[task_id]
            if not self._followers:
                self._stop()

    def _start(self) -> None:
        if self._listener is None:
            self._listener = wakeup.Listener.for_tasks()
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._wake)

    def _stop(self) -> None:
        # Nobody listens: the writers have no one to send to.
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _wake(self) -> None:
        if self._listener is not None:
            payloads = self._listener.take()
            task_ids = self._followers if wakeup.EVERYTHING in payloads else payloads
            for task_id in task_ids:
                for woken in self._followers.get(task_id, ()):
                    woken.set()

    async def _read(self, task_id: str, after: int) -> list[Entry]:
        """Read the next page; followers at the same place share one read."""
        key = (task_id, after)
        read = self._reads.get(key)
        if read is None:
            read = asyncio.ensure_future(log_reads.run(event_log.read, task_id, after, PAGE))
            self._reads[key] = read
            read.add_done_callback(lambda _: self._reads.pop(key, None))
        # One follower that goes away must not end the read of the others.
        return await asyncio.shield(read)


def finished(task_id: str) -> bool:
    """Tell whether nothing will follow: a deleted task has finished, too."""
    return not Task.objects.unfinished().filter(pk=task_id).exists()


tail = Tail()
