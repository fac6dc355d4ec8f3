"""A line between a client and the service: all that comes over it is kept and checked, and it can be cut."""

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import h11
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from tests.conformance import open_responses

_PIECE = 65536
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Answer:
    """What the service answered to one request, as far as it came."""

    status: int
    content_type: str
    body: bytes
    whole: bool

    def parts(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each JSON object of the answer, with its status."""
        if self.content_type == "text/event-stream":
            *blocks, _cut_off = self.body.decode(errors="replace").split("\n\n")
            for block in blocks:
                data = "".join(line.removeprefix("data: ") for line in block.split("\n") if line.startswith("data: "))
                if data not in ("", "[DONE]"):
                    yield self.status, json.loads(data)
        elif self.body and self.whole:
            assert self.content_type == "application/json", self
            yield self.status, json.loads(self.body)


@dataclass
class _Connection:
    """A connection of the client, the one of the line to the service, and what the service sent."""

    client: socket.socket
    service: socket.socket
    received: bytearray = field(default_factory=bytearray)
    closed: bool = False
    checked: int = 0

    def copy(self, source: socket.socket, sink: socket.socket) -> None:
        """Send on what comes from one side, until either has gone."""
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if source is self.service:
                    self.received += piece
                sink.sendall(piece)
        self.close()

    def close(self, *, reset: bool = False) -> None:
        self.closed = True
        for side in (self.client, self.service):
            if reset:
                with suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            # A thread that waits in recv() is not woken by close().
            with suppress(OSError):
                side.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            side.close()

    def unchecked(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the objects that have come since the last call; those of an answer under way come later."""
        objects = [part for answer in answers(bytes(self.received)) for part in answer.parts()]
        new = objects[self.checked :]
        self.checked = len(objects)
        return new


def answers(received: bytes) -> Iterator[Answer]:
    """Yield the answers of one connection to the service, the frames of a websocket as one."""
    parser = h11.Connection(h11.CLIENT)
    # Nothing would mean the end to it.
    if received:
        parser.receive_data(received)
    while parser.our_state is h11.IDLE:
        # What was asked does not matter, but that an upgrade may be the answer.
        upgrade = [("host", "service"), ("connection", "upgrade"), ("upgrade", "websocket")]
        parser.send(h11.Request(method="GET", target="/", headers=upgrade))
        parser.send(h11.EndOfMessage())
        status, content_type, body = 0, "", bytearray()
        while not isinstance(event := parser.next_event(), (type(h11.NEED_DATA), h11.EndOfMessage)):
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                yield from _frames(parser.trailing_data[0])
                return
            if isinstance(event, h11.Response):
                status = event.status_code
                content_type = dict(event.headers).get(b"content-type", b"").decode().partition(";")[0]
            elif isinstance(event, h11.Data):
                body += event.data
        whole = isinstance(event, h11.EndOfMessage)
        if status:
            yield Answer(status, content_type, bytes(body), whole)
        if not whole or parser.our_state is not h11.DONE or parser.their_state is not h11.DONE:
            return
        parser.start_next_cycle()


def _frames(received: bytes) -> Iterator[Answer]:
    reader = ClientProtocol(parse_uri("ws://service/"), state=State.OPEN, max_size=None)
    reader.receive_data(received)
    for frame in reader.events_received():
        if isinstance(frame, Frame) and frame.opcode is Opcode.TEXT:
            yield Answer(101, "application/json", bytes(frame.data), whole=True)


class Line:
    """A port of its own, behind which is the service.

    The client is one that people use, whatever its language: it is told the address, and nothing is put into it.
    """

    def __init__(self, service_port: int) -> None:
        self._service_port = service_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[_Connection] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def cut(self) -> None:
        """Reset every connection, as a machine between client and service does that restarts."""
        for connection in self._connections:
            connection.close(reset=True)

    def check(self) -> Counter[str]:
        """See that all that has come since the last call is as Open Responses has it; count it by kind."""
        new: Counter[str] = Counter()
        for connection in list(self._connections):
            over = connection.closed
            for status, part in connection.unchecked():
                new[open_responses.check(status, part)] += 1
            if over:
                self._connections.remove(connection)
        return new

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                service = socket.create_connection(("127.0.0.1", self._service_port))
                connection = _Connection(client, service)
                self._connections.append(connection)
                for source, sink in ((client, service), (service, client)):
                    threading.Thread(target=connection.copy, args=(source, sink), daemon=True).start()
