"""WS /v1/tasks/{id}/events: a task's log over a websocket, one event object per message."""

import asyncio
import json
from contextlib import aclosing, suppress
from urllib.parse import parse_qsl

from channels.generic.websocket import AsyncWebsocketConsumer

from clients_app import authentication, scopes
from lmsp_site import open_streams
from lmsp_site.asgi_http import nonnegative
from lmsp_site.errors import NotFound, ProtocolError, to_protocol
from tasks_app import lookup
from tasks_app.models import Task
from tasks_app.stream import requests, tail

# Close codes above 4000 are the application's: 4000 and the HTTP status of the error that was sent before.
_CLOSE_BASE = 4000
_NORMAL = 1000


class _Consumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket that tells errors in frames, which browsers can read, unlike a refused handshake."""

    async def refuse(self, error: ProtocolError) -> None:
        """Send the error envelope and close with 4000 and the status."""
        await self.send(text_data=json.dumps(error.body()))
        await self.close(_CLOSE_BASE + error.status)


class NowhereConsumer(_Consumer):
    """Any other address."""

    async def connect(self) -> None:
        """Say that there is nothing here."""
        await self.accept()
        await self.refuse(NotFound(f"There is no websocket at {self.scope['path']}."))


class TaskEventsConsumer(_Consumer):
    """Replays the events after ``?after=N``, follows the task, and closes normally after the terminal event."""

    async def connect(self) -> None:
        """Accept the socket and begin, unless something is wrong with the request."""
        await self.accept()
        self._following: asyncio.Task[None] | None = None
        try:
            after = dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)).get("after")
            task = await requests.run(self._find)
            cursor = -1 if after is None else nonnegative(after, "after")
        except Exception as error:  # noqa: BLE001 - the outermost frame of the handshake
            await self.refuse(to_protocol(error))
            return
        self._following = asyncio.ensure_future(self._follow(task.id, cursor))

    async def disconnect(self, code: int) -> None:
        """Stop reading the log for a reader that has gone."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following

    def _find(self) -> Task:
        client = authentication.authenticate(authentication.authorization_header(self.scope["headers"]))
        authentication.require(client, scopes.TASKS_READ)
        return lookup.task(client, self.scope["url_route"]["kwargs"]["task_id"])

    async def _follow(self, task_id: str, after: int) -> None:
        with open_streams.counted(open_streams.WEBSOCKET):
            async with aclosing(tail.follow(task_id, after)) as pages:
                async for page in pages:
                    for entry in page:
                        await self.send(text_data=entry.to_json())
        await self.close(_NORMAL)
