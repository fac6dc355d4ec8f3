"""Back-pressure for Daphne, whose ``send()`` never waits: what a slow reader has not taken stays in the log.

Here ``send()`` returns when the connection has room again, as ASGI means it, so that whoever sends keeps pace with
whoever reads. A reader that acknowledges nothing for a while is closed. Only this file knows what is inside of Daphne:
Twisted's transports and the producers that they pause, autobahn's sockets.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self

from lmsp_site.asgi_http import App, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

SLOW_READER = 4408
"""Close code of a websocket whose reader has taken nothing for too long: 4000 and HTTP's status of a timeout."""

_UNSENT_BYTES = 64 << 10
# What the kernel takes beyond what the reader's window has room for; without it, it would take megabytes.
_UNSENT_BYTES_IN_KERNEL = 128 << 10
_LONGEST_LOOK_SECONDS = 5.0
_FAREWELL_SECONDS = 1.0
# Of Linux's struct tcp_info: segments and bytes on their way, and all that was ever acknowledged.
_TCP_INFO = struct.Struct("@24x I 92x Q 16x I")


class Paced:
    """An ASGI app whose ``send()`` waits for the reader. It has to be the outermost one: others hide the connection.

    Args:
        app: what is served.
        patience: seconds for which a reader may acknowledge nothing of what waits for it.
    """

    def __init__(self, app: App, patience: float) -> None:
        self._app = app
        self._watch = _Watch(patience)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        connection = _Connection.behind(scope, send)
        if connection is None:
            # Some other server, whose own `send()` is trusted to wait.
            await self._app(scope, receive, send)
            return

        async def paced_send(message: Message) -> None:
            if connection.is_closing:
                # Who would send on through the whole log meanwhile waits to be told that the connection has gone. For
                # that the other side's farewell is to be read, whose frames nobody waits for any more.
                connection.read_on()
                await connection.gone.wait()
                return
            if message["type"] == "http.response.body":
                if not message.get("more_body"):
                    self._watch.discard(connection)
                elif not connection.held:
                    self._watch.add(connection)
            await send(message)
            if message["type"] == "websocket.accept":
                self._watch.add(connection)
            await connection.has_room()

        try:
            await self._app(scope, connection.paced(receive), paced_send)
        finally:
            self._watch.discard(connection)


class _Connection:
    """One connection of Daphne's, and the producer that its transport pauses while too much is unsent."""

    def __init__(self, scope: Scope, protocol: Any) -> None:
        self.path: str = scope.get("path", "")
        self.held = False
        self.gone = asyncio.Event()
        self._is_socket = scope["type"] == "websocket"
        self._protocol = protocol
        self._transport = protocol.transport
        self._room = asyncio.Event()
        self._room.set()
        self._acknowledged = -1
        self._since = 0.0

    @classmethod
    def behind(cls, scope: Scope, send: Send) -> Self | None:
        """Return the connection that Daphne's `send` writes to; ``None`` for calls of another kind or server."""
        if scope["type"] not in ("http", "websocket") or not isinstance(send, partial):
            return None
        protocol = send.args[0]
        return cls(scope, protocol) if hasattr(protocol, "transport") else None

    @property
    def is_closing(self) -> bool:
        """Whether a socket takes no more messages."""
        return self._is_socket and self.held and self._protocol.state != self._protocol.STATE_OPEN

    def hold(self, patience: float) -> None:
        """Have the transport say when it is full and when it is empty."""
        self.held = True
        self._since = asyncio.get_running_loop().time()
        transport = self._transport
        transport.bufferSize = _UNSENT_BYTES
        self._option(socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES_IN_KERNEL)
        if self._is_socket:
            # The HTTP channel that the socket was upgraded from still has that place.
            transport.unregisterProducer()
            # What stands before the close frame takes a slow reader longer than the second it would be given.
            self._protocol.closeHandshakeTimeout = patience
            self._protocol.is_closed.addCallback(self._closed)
        self._protocol.registerProducer(self, True)

    def release(self) -> None:
        """Give the transport's place for a producer back."""
        self.held = False
        # A request that has lost its connection has no channel any more.
        if self._is_socket or getattr(self._protocol, "channel", None) is not None:
            self._protocol.unregisterProducer()
        self._room.set()

    async def has_room(self) -> None:
        """Wait until what is unsent has gone, where it was too much; or the connection has."""
        await self._room.wait()

    def read_on(self) -> None:
        """Let what the other side sends be read, although nobody waits for it."""
        self._transport.resumeProducing()

    def paced(self, receive: Receive) -> Receive:
        """Return a ``receive()`` that lets a socket be read only while somebody waits for its frames."""
        if not self._is_socket:
            return receive

        async def paced_receive() -> Message:
            self._transport.resumeProducing()
            message = await receive()
            self._transport.pauseProducing()
            return message

        return paced_receive

    def is_stalled(self, now: float, patience: float) -> bool:
        """Tell whether the other side has acknowledged nothing of what waits for it for `patience` seconds."""
        unacknowledged, acknowledged, unsent = self._tcp_info()
        if acknowledged != self._acknowledged or not (unacknowledged or unsent):
            self._acknowledged, self._since = acknowledged, now
        return now - self._since >= patience

    def give_up(self) -> None:
        """Close the connection. A socket is told why, and has a second to read it."""
        logger.warning("closed: its reader takes nothing", extra={"path": self.path})
        if self._is_socket:
            self._protocol.closeHandshakeTimeout = _FAREWELL_SECONDS
            self._protocol.sendClose(code=SLOW_READER, reason="The reader is too slow; resume from the cursor.")
        else:
            self._transport.abortConnection()

    # What Twisted calls.

    def pauseProducing(self) -> None:  # noqa: N802
        """More than the limit is unsent."""
        self._room.clear()

    def resumeProducing(self) -> None:  # noqa: N802
        """The kernel has taken everything."""
        self._room.set()

    def stopProducing(self) -> None:  # noqa: N802
        """The connection is lost."""
        self.gone.set()
        self._room.set()

    def _closed(self, result: Any) -> Any:
        self.stopProducing()
        return result

    def _socket(self) -> Any:
        # An encrypted connection stands before the one that has the socket.
        return getattr(self._transport, "transport", self._transport).getHandle()

    def _option(self, name: int, value: int) -> None:
        with suppress(OSError, AttributeError):  # Not TCP, or lost.
            self._socket().setsockopt(socket.IPPROTO_TCP, name, value)

    def _tcp_info(self) -> tuple[int, int, int]:
        try:
            raw = self._socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            unacknowledged, acknowledged, unsent = _TCP_INFO.unpack(raw)
        except (OSError, AttributeError, struct.error):
            # Not TCP; or lost, and Twisted has forgotten its socket.
            return 0, 0, 0
        return unacknowledged, acknowledged, unsent


class _Watch:
    """Looks at all held connections from time to time; one timer for them all."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._held: set[_Connection] = set()
        self._cancel: Callable[[], None] | None = None

    def add(self, connection: _Connection) -> None:
        """Hold a connection and watch it."""
        connection.hold(self._patience)
        self._held.add(connection)
        if self._cancel is None:
            self._schedule()

    def discard(self, connection: _Connection) -> None:
        """Release a connection that is held."""
        if connection in self._held:
            self._held.discard(connection)
            connection.release()
        if not self._held and self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _schedule(self) -> None:
        interval = min(self._patience / 4, _LONGEST_LOOK_SECONDS)
        self._cancel = asyncio.get_running_loop().call_later(interval, self._look).cancel

    def _look(self) -> None:
        # First of all, so that nothing that goes wrong with one connection ends the watch over the others.
        self._schedule()
        now = asyncio.get_running_loop().time()
        stalled = [connection for connection in self._held if connection.is_stalled(now, self._patience)]
        for connection in stalled:
            self._held.discard(connection)
            connection.give_up()
