"""One tail for all streams: replay the logs of tasks, then follow them, with no gap between.

A stream holds nothing but its cursors. A wake-up only makes it read the log again, so a lost one loses nothing, and
a slow reader costs what it reads and no more.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from lmsp_site.database_threads import DatabaseThreads
from tasks_app import event_log, wakeup
from tasks_app.event_log import Entry
from tasks_app.feed import Feed
from tasks_app.models import Task

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
# A wake-up can be lost; this is how late its event is then.
LOOK_ANYWAY_SECONDS = 0.25
# Tasks that are asked about at once: in between, others can read.
_LOOK_TASKS = 200
_HEARD = 10_000

# One thread: streams of the same task share what it reads.
log_reads = DatabaseThreads(1, "log-reads")


class Tail:
    """What all streams of one process share: the listener for wake-ups, and reads that several wait for."""

    def __init__(self) -> None:
        self._feeds: defaultdict[str, set[Feed]] = defaultdict(set)
        self._open: set[Feed] = set()
        self._births: set[asyncio.Event] = set()
        self._heard: dict[str, None] = {}
        self._reads: dict[tuple[str, int], asyncio.Task[tuple[list[Entry], bool]]] = {}
        self._listener: wakeup.Listener | None = None
        self._looking: asyncio.Task[None] | None = None

    async def follow(
        self, task_id: str, after: int = -1, *, heartbeat: float = HEARTBEAT_SECONDS
    ) -> AsyncGenerator[list[Entry]]:
        """Yield the entries of one task after `after`, in order, as they come; end with the terminal one.

        Yields an empty list whenever nothing has come for `heartbeat` seconds. Ends as well when the task is
        finished before `after`, or deleted.
        """
        with Feed(self) as feed:
            feed.add(task_id, after)
            async with aclosing(feed.pages(heartbeat)) as pages:
                async for page in pages:
                    if page is None or page.entries:
                        yield page.entries if page else []
                    if page and page.is_last:
                        return

    async def read(self, task_id: str, after: int) -> tuple[list[Entry], bool]:
        """Read the next page, and tell whether it is empty for good; feeds at the same place share one read."""
        key = (task_id, after)
        read = self._reads.get(key)
        if read is None:
            read = asyncio.ensure_future(log_reads.run(read_on, task_id, after))
            self._reads[key] = read
            read.add_done_callback(lambda _: self._reads.pop(key, None))
        # One reader that goes away must not end the read of the others.
        return await asyncio.shield(read)

    def open(self, feed: Feed) -> None:
        """Call ``tick`` of a feed from now on."""
        self._open.add(feed)
        if self._listener is None:
            self._listener = wakeup.Listener.for_tasks()
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._hear)
            self._looking = asyncio.ensure_future(self._look_now_and_then())

    def close(self, feed: Feed) -> None:
        """Do so no longer."""
        self._open.discard(feed)
        if self._open or self._listener is None or self._looking is None:
            return
        # Nobody listens: the writers have no one to send to.
        self._looking.cancel()
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()
        self._listener = self._looking = None

    def attach(self, task_id: str, feed: Feed) -> None:
        """Wake `feed`, which is open, from now on when the log of a task grows."""
        self._feeds[task_id].add(feed)

    def detach(self, task_id: str, feed: Feed) -> None:
        """Do so no longer."""
        self._feeds[task_id].discard(feed)
        if not self._feeds[task_id]:
            del self._feeds[task_id]

    @contextmanager
    def births(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever there may be new tasks, and now and then, while any feed is open."""
        born = asyncio.Event()
        self._births.add(born)
        try:
            yield born
        finally:
            self._births.discard(born)

    def _hear(self) -> None:
        if self._listener is None:
            return
        payloads = self._listener.take()
        everything = wakeup.EVERYTHING in payloads
        for task_id in list(self._feeds) if everything else payloads:
            self._wake(task_id)
        if self._births and (everything or payloads - self._heard.keys()):
            self._heard.update(dict.fromkeys(payloads))
            while len(self._heard) > _HEARD:
                del self._heard[next(iter(self._heard))]
            self._tell_births()

    def _wake(self, task_id: str) -> None:
        for feed in self._feeds.get(task_id, ()):
            feed.wake(task_id)

    def _tell_births(self) -> None:
        for event in self._births:
            event.set()

    async def _look_now_and_then(self) -> None:
        """Find what a lost wake-up would have told, for all feeds at once: an idle stream costs next to nothing."""
        failing = False
        while True:
            await asyncio.sleep(LOOK_ANYWAY_SECONDS)
            self._tell_births()
            now = asyncio.get_running_loop().time()
            for feed in self._open:
                feed.tick(now)
            try:
                await self._look()
            except Exception:
                # The database may be out of reach for a while; the streams go on when it is back.
                if not failing:
                    logger.exception("cannot look for events")
                failing = True
            else:
                failing = False

    async def _look(self) -> None:
        task_ids = list(self._feeds)
        for first in range(0, len(task_ids), _LOOK_TASKS):
            some = task_ids[first : first + _LOOK_TASKS]
            last = await log_reads.run(_last_numbers, some)
            for task_id in some:
                for feed in self._feeds.get(task_id, ()):
                    if task_id not in last or last[task_id] > feed.cursor(task_id):
                        feed.wake(task_id)


def read_on(task_id: str, after: int) -> tuple[list[Entry], bool]:
    """Return the next page of a log, and whether it is empty for good: a deleted task has finished, too."""
    entries = event_log.read_page(task_id, after)
    if entries or not _has_finished(task_id):
        return entries, False
    # It may have finished since that read: what it wrote then is there now, and it is the last.
    entries = event_log.read_page(task_id, after)
    return entries, not entries


def _has_finished(task_id: str) -> bool:
    return not Task.objects.unfinished().filter(pk=task_id).exists()


def _last_numbers(task_ids: Sequence[str]) -> dict[str, int]:
    """Return the last sequence numbers of those tasks that have not finished."""
    unfinished = Task.objects.unfinished().filter(pk__in=task_ids)
    return dict(unfinished.values_list("pk", "last_sequence_number"))


tail = Tail()
