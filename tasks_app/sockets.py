"""What all websockets share: the credential, errors in frames, and work that ends with the connection."""

import asyncio
import json
from collections.abc import Collection, Coroutine
from contextlib import ExitStack
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

from clients_app import authentication
from clients_app.models import Client
from clients_app.scopes import WEBSOCKET
from lmsp_site import open_streams
from lmsp_site.asgi_http import parse_json
from lmsp_site.database_threads import reads
from lmsp_site.errors import InvalidRequest, ProtocolError, to_protocol
from tasks_app.callers import watch

# Close codes above 4000 are the application's: 4000 and the HTTP status of the error that was sent before.
CLOSE_BASE = 4000
NORMAL = 1000


class Socket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket that tells errors in frames, which browsers can read, unlike a refused handshake."""

    client: Client

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._work: set[asyncio.Task[None]] = set()
        self._held = ExitStack()
        self._refused = False

    async def connect(self) -> None:
        """Accept the socket, and refuse in a frame whom it is not for."""
        await self.accept(authentication.select_subprotocol(self.scope["subprotocols"]))
        self._held.enter_context(open_streams.counted(open_streams.WEBSOCKET))
        try:
            self.client = await reads.run(self.authorize)
            withdrawn = self._held.enter_context(watch.over(self.client, WEBSOCKET, self.scope["path"]))
            self.begin(self._end_when(withdrawn))
            await self.opened()
        except Exception as error:  # noqa: BLE001 - the outermost frame of the handshake
            await self.refuse(to_protocol(error))

    async def opened(self) -> None:
        """Begin; the client is known and has the scope."""

    async def websocket_receive(self, message: dict[str, Any]) -> None:
        """Take a frame. On a socket that is being closed nobody answers it: that would wait for the end, unread."""
        if not self._refused:
            await super().websocket_receive(message)

    async def disconnect(self, code: int) -> None:
        """End what was begun for a caller who has gone."""
        self._held.close()
        await _stop(self._work)

    def authorize(self) -> Client:
        """Return whom the token belongs to; on a thread that may use the database.

        Raises:
            ProtocolError: an unknown or revoked token, or one without the scope.
        """
        credential = authentication.socket_authorization(self.scope["headers"], self.scope["subprotocols"])
        client = authentication.authenticate(credential)
        authentication.require(client, WEBSOCKET, self.scope["path"])
        return client

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside the reader's frames, until the connection ends; what goes wrong in it ends that."""

        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - the outermost frame of this work
                await self.refuse(to_protocol(error))

        task = asyncio.ensure_future(guarded())
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _end_when(self, withdrawn: asyncio.Future[ProtocolError]) -> None:
        """Close the socket once its client may not have it any more: nothing is sent any more but why."""
        error = await withdrawn
        self._refused = True
        await _stop(self._work - {asyncio.current_task()})
        await self.refuse(error)

    async def send_object(self, message: dict[str, Any]) -> None:
        """Send one JSON object."""
        await self.send(text_data=json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    async def send_error(self, error: ProtocolError, **fields: Any) -> None:
        """Tell an error that the socket outlives."""
        await self.send_object({"type": "error", "status": error.status, **error.body(), **fields})

    async def refuse(self, error: ProtocolError) -> None:
        """Tell an error and close with 4000 and its status."""
        self._refused = True
        await self.send_error(error)
        await self.close(CLOSE_BASE + error.status)


async def _stop(work: Collection[asyncio.Task[None]]) -> None:
    for task in work:
        task.cancel()
    if work:
        await asyncio.wait(work)


async def read_frame(text: str | None) -> dict[str, Any]:
    """Read a frame as the API reads bodies.

    Raises:
        InvalidRequest: not a JSON object in a text frame.
    """
    if text is None:
        raise InvalidRequest("Frames are JSON objects in text.", code="invalid_json")
    return await parse_json(text.encode())
