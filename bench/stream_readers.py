"""Many readers of one task's log in one thread: each notes when each event came, and does nothing else with it."""

import base64
import os
import re
import selectors
import socket
import time
from types import TracebackType
from typing import Self

_NUMBER = re.compile(rb'"sequence_number":(\d+)[,}]')
_TIMEOUT = 60.0


class Readers:
    """Connections that follow a log as server-sent events or over websockets, from `after` on.

    Args:
        address: of the service.
        token: its client's.
        task_id: whose log.
        count: of readers.
        websocket: over which transport.
        after: the number of the last event that they know.
    """

    def __init__(
        self, address: tuple[str, int], token: str, task_id: str, count: int, *, websocket: bool, after: int = -1
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._rest: dict[socket.socket, bytes] = {}
        self.last: dict[socket.socket, int] = {}
        self.arrivals: list[tuple[int, int]] = []
        """Number and moment of each arrival, in nanoseconds."""

        for _ in range(count):
            connection = socket.create_connection(address, timeout=_TIMEOUT)
            path = f"/v1/tasks/{task_id}/events" + (f"?after={after}" if after >= 0 else "")
            connection.sendall(_request(address, token, path, websocket=websocket))
            self._selector.register(connection, selectors.EVENT_READ)
            self._rest[connection], self.last[connection] = b"", after

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._rest:
            connection.close()
        self._selector.close()

    def read_until(self, number: int) -> None:
        """Read until all of them have this event. Each must have had all those before, once and in order."""
        while min(self.last.values()) < number:
            ready = self._selector.select(_TIMEOUT)
            if not ready:
                raise TimeoutError(f"nothing came for {_TIMEOUT} s")
            for key, _ in ready:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        data = connection.recv(1 << 18)
        if not data:
            raise ConnectionError("a stream ended before its time")
        now = time.monotonic_ns()
        data = self._rest[connection] + data
        end = 0
        for found in _NUMBER.finditer(data):
            number, end = int(found[1]), found.end()
            if number != self.last[connection] + 1:
                raise ConnectionError(f"{number} came after {self.last[connection]}")
            self.last[connection] = number
            self.arrivals.append((number, now))
        # A number may stand across two reads.
        self._rest[connection] = data[max(end, len(data) - 64) :]


def _request(address: tuple[str, int], token: str, path: str, *, websocket: bool) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    kind = (
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        if websocket
        else "Accept: text/event-stream\r\n"
    )
    head = f"GET {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {token}\r\n{kind}\r\n"
    return head.encode()
