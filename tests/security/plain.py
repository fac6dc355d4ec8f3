"""Requests as bytes on a connection of their own, which no client would send so."""

import json
import socket
from typing import Any, NamedTuple

from tests.service import Service


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an error in the envelope."""
        found: dict[str, Any] = json.loads(self.body)
        assert found.keys() == {"error"}
        assert found["error"].keys() == {"message", "type", "param", "code"}
        code: str = found["error"]["code"]
        return code


def connect(service: Service, source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30, source_address=(source, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head(method: str, path: str, *headers: str, host: str = "127.0.0.1") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def upgrade(path: str, *headers: str, host: str = "127.0.0.1") -> bytes:
    """Return the request by which a websocket begins."""
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    return head(
        "GET", path, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", key, *headers, host=host
    )


def read(connection: socket.socket) -> Answer:
    """Read one answer, and nothing that follows it."""
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        # One by one: the next answer may have come with this one.
        piece = connection.recv(1)
        assert piece, f"closed after {received!r}"
        received += piece
    start, body = received.removesuffix(b"\r\n\r\n"), b""
    first, *lines = start.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while missing := int(headers.get("content-length", len(body))) - len(body):
        piece = connection.recv(missing)
        assert piece, f"closed after {body!r}"
        body += piece
    if headers.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(1 << 16)
        body = _joined(body)
    return Answer(int(first.split()[1]), headers, body)


def ask(service: Service, request: bytes, source: str = "127.0.0.1") -> Answer:
    with connect(service, source) as connection:
        connection.sendall(request)
        return read(connection)


def _joined(chunks: bytes) -> bytes:
    whole = b""
    while chunks:
        size, _, chunks = chunks.partition(b"\r\n")
        whole, chunks = whole + chunks[: int(size, 16)], chunks[int(size, 16) + 2 :]
    return whole
