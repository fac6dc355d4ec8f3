"""Readers as bare connections, which read when a test says so and never before."""

import base64
import os
import socket
from contextlib import closing, suppress
from pathlib import Path

from tests.service import Service


def open_stream(
    service: Service, path: str, *, websocket: bool, receive_buffer: int = 0, token: str = ""
) -> socket.socket:
    """Ask for a stream, with the token of the service's first client or another, and read nothing."""
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", service.port))
    key = base64.b64encode(os.urandom(16)).decode()
    kind = (
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        if websocket
        else "Accept: text/event-stream\r\nConnection: close\r\n"
    )
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token or service.token}\r\n{kind}\r\n"
    connection.sendall(head.encode())
    return connection


def read_to_the_end(connection: socket.socket) -> bytes:
    """Return everything that comes until the connection ends, in whatever way."""
    received = bytearray()
    with closing(connection):
        try:
            while piece := connection.recv(1 << 16):
                received += piece
        except ConnectionResetError:
            pass
    return bytes(received)


class WebProcess:
    """The process that has the streams."""

    def __init__(self, service: Service) -> None:
        (self._directory,) = (
            Path(f"/proc/{pid}")
            for pid in service.processes()
            if b"daphne" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )

    @property
    def megabytes(self) -> float:
        """Its resident memory."""
        status = (self._directory / "status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    @property
    def threads(self) -> int:
        return len(list((self._directory / "task").iterdir()))

    @property
    def sockets(self) -> int:
        count = 0
        for file in (self._directory / "fd").iterdir():
            with suppress(FileNotFoundError):  # Closed meanwhile.
                count += str(file.readlink()).startswith("socket:")
        return count
