"""What all websockets share: the credential, errors in frames, and work that ends with the connection."""

import asyncio
import json
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any, ClassVar

from channels.generic.websocket import AsyncWebsocketConsumer

from clients_app import authentication
from clients_app.models import Client
from lmsp_site import open_streams
from lmsp_site.asgi_http import parse_json
from lmsp_site.database_threads import reads
from lmsp_site.errors import InvalidRequest, ProtocolError, to_protocol

# Close codes above 4000 are the application's: 4000 and the HTTP status of the error that was sent before.
CLOSE_BASE = 4000
NORMAL = 1000


class Socket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket that tells errors in frames, which browsers can read, unlike a refused handshake."""

    needed: ClassVar[str]
    """The scope that the token must carry."""

    client: Client

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._work: set[asyncio.Task[None]] = set()
        self._counted = ExitStack()

    async def connect(self) -> None:
        """Accept the socket, and refuse in a frame whom it is not for."""
        await self.accept(authentication.select_subprotocol(self.scope["subprotocols"]))
        self._counted.enter_context(open_streams.counted(open_streams.WEBSOCKET))
        try:
            self.client = await reads.run(self.authorize)
            await self.opened()
        except Exception as error:  # noqa: BLE001 - the outermost frame of the handshake
            await self.refuse(to_protocol(error))

    async def opened(self) -> None:
        """Begin; the client is known and has the scope."""

    async def disconnect(self, code: int) -> None:
        """End what was begun for a caller who has gone."""
        self._counted.close()
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(self._work)

    def authorize(self) -> Client:
        """Return whom the token belongs to; on a thread that may use the database.

        Raises:
            ProtocolError: an unknown or revoked token, or one without the scope.
        """
        credential = authentication.socket_authorization(self.scope["headers"], self.scope["subprotocols"])
        client = authentication.authenticate(credential)
        authentication.require(client, self.needed)
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

    async def send_object(self, message: dict[str, Any]) -> None:
        """Send one JSON object."""
        await self.send(text_data=json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    async def send_error(self, error: ProtocolError, **fields: Any) -> None:
        """Tell an error that the socket outlives."""
        await self.send_object({"type": "error", "status": error.status, **error.body(), **fields})

    async def refuse(self, error: ProtocolError) -> None:
        """Tell an error and close with 4000 and its status."""
        await self.send_error(error)
        await self.close(CLOSE_BASE + error.status)


async def read_frame(text: str | None) -> dict[str, Any]:
    """Read a frame as the API reads bodies.

    Raises:
        InvalidRequest: not a JSON object in a text frame.
    """
    if text is None:
        raise InvalidRequest("Frames are JSON objects in text.", code="invalid_json")
    return await parse_json(text.encode())
