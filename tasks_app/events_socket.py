"""WS /v1/events: the logs of all of a client's tasks over one websocket."""

from collections.abc import Collection
from contextlib import aclosing
from typing import Any

from lmsp_site.database_threads import reads
from lmsp_site.errors import InvalidRequest, to_protocol
from lmsp_site.strict_json import MAX_INTEGER
from tasks_app import lookup
from tasks_app.feed import Feed
from tasks_app.newborn import Newborn
from tasks_app.sockets import Socket, read_frame
from tasks_app.stream import HEARTBEAT_SECONDS, tail

_MOST_RESUMED = 10_000
MAX_SUBSCRIPTIONS = 1000
"""Tasks that one socket follows at once. Of all of a client's tasks, the later ones wait until others have ended."""


class EventsConsumer(Socket):
    """Sends ``{"task_id", "event"}`` for each event of each task that was subscribed to, the tasks by turns.

    What the client sends is answered by a frame with a ``type``; an error leaves the socket open.
    """

    async def opened(self) -> None:
        """Begin to send whatever will be subscribed to."""
        self._feed = Feed(tail)
        self._newborn: Newborn | None = None
        self._resumed: set[str] = set()
        self.begin(self._send_events())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Do what the client asks for."""
        told: dict[str, Any] = {}
        try:
            frame = await read_frame(text_data)
            if isinstance(frame.get("task_id"), str):
                told["task_id"] = frame["task_id"]
            match frame.get("type"):
                case "subscribe" if "tasks" in frame:
                    await self._subscribe_to_all(frame)
                case "subscribe":
                    await self._subscribe(_task_id(frame), _cursor(frame.get("after", -1), "after"))
                case "unsubscribe":
                    await self._unsubscribe(frame)
                case "resume":
                    await self._resume(frame)
                case kind:
                    raise InvalidRequest(  # noqa: TRY301 - told as all errors of a frame are
                        f"type must be subscribe, unsubscribe or resume, not {kind!r:.60}.", param="type"
                    )
        except Exception as error:  # noqa: BLE001 - the outermost frame of this message
            await self.send_error(to_protocol(error), **told)

    async def _subscribe(self, task_id: str, after: int) -> None:
        self._require_room({task_id})
        await reads.run(lookup.task, self.client, task_id)
        await self.send_object({"type": "subscribed", "task_id": task_id, "after": after})
        self._feed.add(task_id, after)

    async def _unsubscribe(self, frame: dict[str, Any]) -> None:
        if frame.get("tasks") == "all":
            self._newborn = None
            for task_id in self._feed.task_ids():
                self._feed.discard(task_id)
            await self.send_object({"type": "unsubscribed", "tasks": "all"})
            return
        task_id = _task_id(frame)
        self._feed.discard(task_id)
        if self._newborn:
            self._newborn.tell({task_id})
        await self.send_object({"type": "unsubscribed", "task_id": task_id})

    async def _resume(self, frame: dict[str, Any]) -> None:
        cursors = frame.get("cursors")
        if not isinstance(cursors, dict):
            raise InvalidRequest("cursors must be an object of task ids and numbers.", param="cursors")
        wanted = {task_id: _cursor(after, f"cursors.{task_id:.40}") for task_id, after in cursors.items()}
        self._require_room(wanted.keys())
        known = await reads.run(lookup.known_ids, self.client, list(wanted))
        # Those that have been purged meanwhile must not keep the others from going on.
        unknown = [task_id for task_id in wanted if task_id not in known]
        resumed = {task_id: after for task_id, after in wanted.items() if task_id in known}
        self._resumed |= wanted.keys()
        if len(self._resumed) > _MOST_RESUMED:
            raise InvalidRequest("This socket has resumed too many tasks; open another.", code="too_many_subscriptions")
        if self._newborn:
            self._newborn.tell(set(wanted))
        await self.send_object({"type": "resumed", "cursors": resumed, "not_found": unknown})
        for task_id, after in resumed.items():
            self._feed.add(task_id, after)

    async def _subscribe_to_all(self, frame: dict[str, Any]) -> None:
        since = frame.get("since")
        if frame["tasks"] != "all" or not (since is None or isinstance(since, str)):
            raise InvalidRequest('tasks must be "all", and since the id of a task.', param="tasks")
        if self._newborn is not None:
            raise InvalidRequest("This socket is subscribed to all tasks already.", param="tasks")
        self._newborn = Newborn(self.client, since, self._resumed | set(self._feed.task_ids()))
        await self.send_object({"type": "subscribed", "tasks": "all"})
        self.begin(self._take_up(self._newborn))

    async def _take_up(self, newborn: Newborn) -> None:
        """Subscribe to each task that there is or will be, as long as there is room."""
        with tail.births() as born:
            born.set()
            while self._newborn is newborn:
                await born.wait()
                born.clear()
                room = MAX_SUBSCRIPTIONS - len(self._feed)
                found = await reads.run(newborn.look, room) if room > 0 else []
                for task_id in found:
                    if self._newborn is newborn and task_id not in self._feed:
                        self._feed.add(task_id)

    async def _send_events(self) -> None:
        with self._feed as feed:
            async with aclosing(feed.pages(HEARTBEAT_SECONDS)) as pages:
                async for page in pages:
                    if page is None:
                        await self.send_object({"type": "heartbeat"})
                        continue
                    head = f'{{"task_id":"{page.task_id}","event":'
                    for entry in page.entries:
                        if not feed.is_current(page):
                            break
                        await self.send(text_data=f"{head}{entry.to_json()}}}")
                    if page.is_last and feed.is_current(page):
                        await self.send_object({"type": "ended", "task_id": page.task_id})

    def _require_room(self, wanted: Collection[str]) -> None:
        more = sum(task_id not in self._feed for task_id in wanted)
        if len(self._feed) + more > MAX_SUBSCRIPTIONS:
            raise InvalidRequest(
                f"A socket follows up to {MAX_SUBSCRIPTIONS} tasks at once; unsubscribe from some, or open another.",
                code="too_many_subscriptions",
            )


def _task_id(frame: dict[str, Any]) -> str:
    task_id = frame.get("task_id")
    if not isinstance(task_id, str):
        raise InvalidRequest("task_id must be the id of a task.", param="task_id")
    return task_id


def _cursor(value: Any, name: str) -> int:
    """Read a cursor; one that cannot be meant must never mean "from the start"."""
    if type(value) is not int or not -1 <= value <= MAX_INTEGER:
        raise InvalidRequest(f"{name} must be a sequence number, or -1.", code="invalid_cursor", param=name)
    return value
