"""The logs of several tasks as one stream: each in its order, all by turns."""

import asyncio
import math
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from tasks_app import event_log
from tasks_app.event_log import Entry


class Logs(Protocol):
    """What a feed needs of the tail."""

    async def read(self, task_id: str, after: int) -> tuple[list[Entry], bool]:
        """Read the next page, maybe together with others; without entries, tell whether nothing will follow, either."""

    def open(self, feed: "Feed") -> None:
        """Call ``tick`` of the feed from now on, several times a second."""

    def close(self, feed: "Feed") -> None:
        """Do so no longer."""

    def attach(self, task_id: str, feed: "Feed") -> None:
        """Wake the feed from now on when the log grows."""

    def detach(self, task_id: str, feed: "Feed") -> None:
        """Do so no longer."""


@dataclass(slots=True, eq=False)
class _Subscription:
    after: int
    wanted: bool = True


class Page(NamedTuple):
    """Some entries of one task; with `is_last` nothing of it follows."""

    task_id: str
    entries: list[Entry]
    is_last: bool
    subscription: _Subscription


class Feed:
    """Logs that are replayed and followed together, each from its own cursor.

    Nothing is kept of what is to come: whoever takes pages slowly finds the rest in the log. A page has a bounded size,
    and a task with more to read stands behind all others that have something.
    """

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._subscriptions: dict[str, _Subscription] = {}
        self._due: dict[str, None] = {}
        self._news = asyncio.Event()
        self._silent_until = math.inf

    def __enter__(self) -> Self:
        self._logs.open(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task_id in list(self._subscriptions):
            self.discard(task_id)
        self._logs.close(self)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._subscriptions

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, task_id: str, after: int = -1) -> None:
        """Follow a task from `after` on; one that is followed already starts again there."""
        self.discard(task_id)
        self._subscriptions[task_id] = _Subscription(after)
        self._logs.attach(task_id, self)
        self.wake(task_id)

    def discard(self, task_id: str) -> bool:
        """Follow a task no longer; tell whether it was followed."""
        subscription = self._subscriptions.get(task_id)
        if subscription is None:
            return False
        subscription.wanted = False
        self._remove(task_id)
        return True

    def _remove(self, task_id: str) -> None:
        del self._subscriptions[task_id]
        self._due.pop(task_id, None)
        self._logs.detach(task_id, self)

    def task_ids(self) -> list[str]:
        """Return the tasks that are followed."""
        return list(self._subscriptions)

    def cursor(self, task_id: str) -> int:
        """Return the number of the last entry that was read of a task that is followed."""
        return self._subscriptions[task_id].after

    def is_current(self, page: Page) -> bool:
        """Tell whether a page is still wanted: its task may have been dropped, or started again, since."""
        return page.subscription.wanted and self._subscriptions.get(page.task_id) in (None, page.subscription)

    def wake(self, task_id: str) -> None:
        """Read a task's log again, when its turn comes."""
        self._due[task_id] = None
        self._news.set()

    def tick(self, now: float) -> None:
        """See whether there has been silence for too long; a timer for each wait would cost more than the wait."""
        if now >= self._silent_until:
            self._news.set()

    async def pages(self, heartbeat: float) -> AsyncGenerator[Page | None]:
        """Yield pages as there are entries, for ever; ``None`` whenever nothing has come for `heartbeat` seconds."""
        loop = asyncio.get_running_loop()
        self._silent_until = loop.time() + heartbeat
        while True:
            self._news.clear()
            while self._due:
                page = await self._read(next(iter(self._due)))
                if page is not None:
                    yield page
                    self._silent_until = loop.time() + heartbeat
            if loop.time() >= self._silent_until:
                self._silent_until = loop.time() + heartbeat
                yield None
            else:
                await self._news.wait()

    async def _read(self, task_id: str) -> Page | None:
        subscription = self._subscriptions[task_id]
        del self._due[task_id]
        entries, ended = await self._logs.read(task_id, subscription.after)
        if self._subscriptions.get(task_id) is not subscription:
            return None
        is_last = entries[-1].is_terminal if entries else ended
        if entries:
            subscription.after = entries[-1].sequence_number
        if is_last:
            self._remove(task_id)
        elif event_log.is_full(entries):
            self._due[task_id] = None
        return Page(task_id, entries, is_last, subscription) if entries or is_last else None
