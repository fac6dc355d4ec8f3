"""One peer of a server whose sender must never wait for it."""

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from models_app.engines import wire


class Connection:
    """A non-blocking socket with an outbox for what the peer has not taken yet.

    `send` is for any thread. `receive`, `flush` and `close` are for the one that watches the socket; `on_backlog` is
    called, in the sender's thread, when that one has to watch for room too. A peer that leaves more than `limit`
    bytes lying is hung up on.
    """

    def __init__(self, peer: socket.socket, limit: int, on_backlog: Callable[["Connection"], None]) -> None:
        peer.setblocking(False)
        self.socket = peer
        self.closed = False
        self._limit = limit
        self._on_backlog = on_backlog
        self._decoder = wire.LineDecoder()
        self._lock = threading.Lock()
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0

    @property
    def has_backlog(self) -> bool:
        """Whether something waits for the peer to make room."""
        return bool(self._outbox)

    def send(self, message: dict[str, Any]) -> None:
        """Send now what the socket takes now, and keep the rest."""
        data = wire.encode(message)
        with self._lock:
            if self.closed:
                return
            if self._outbox:
                self._keep(data)
                return
            sent = self._write(data)
            if sent == len(data):
                return
            self._keep(data[sent:])
        self._on_backlog(self)

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that arrived; `EOFError` when the peer is gone, `WireError` when it talks nonsense."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        return self._decoder.feed(data)

    def flush(self) -> None:
        """Send on from the outbox: the socket has room."""
        with self._lock:
            while self._outbox:
                data = self._outbox[0]
                sent = self._write(data)
                self._outbox_bytes -= sent
                if sent < len(data):
                    self._outbox[0] = data[sent:]
                    return
                self._outbox.popleft()

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self.closed = True
            self._outbox.clear()
            self.socket.close()

    def _keep(self, data: bytes) -> None:
        self._outbox.append(data)
        self._outbox_bytes += len(data)
        if self._outbox_bytes > self._limit:
            self._outbox.clear()
            self._outbox_bytes = 0
            self._shut_down()

    def _write(self, data: bytes) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._shut_down()
            return len(data)  # there is nobody to keep it for

    def _shut_down(self) -> None:
        """Let whoever watches the socket see its end: closing is theirs to do."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer was faster
