"""How processes of one machine talk to an engine: JSON objects, one a line, over Unix stream sockets."""

import hashlib
import json
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any

HOST_SOCKET = "engine-host.sock"

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one message: far above any prompt, far below what would hurt a process."""

_to_json = json.JSONEncoder(separators=(",", ":")).encode

_MAX_SOCKET_PATH = 107
"""Linux keeps 108 bytes for a socket's path, and a terminating zero."""


class WireError(ValueError):
    """What came over the socket is not one of our messages."""


def encode(message: dict[str, Any]) -> bytes:
    """One message as a line of ASCII."""
    return _to_json(message).encode("ascii") + b"\n"


class LineDecoder:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Take what was received and return the messages it completes; `WireError` where it is not JSON."""
        self._partial += data
        if b"\n" not in data:
            self._check_length()
            return []
        *lines, rest = self._partial.split(b"\n")
        self._partial = rest
        self._check_length()
        return [_parse(line) for line in lines]

    def _check_length(self) -> None:
        if len(self._partial) > MAX_LINE:
            raise WireError("a message is too long")


def _parse(line: bytearray) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise WireError(f"not JSON: {bytes(line[:80])!r}") from error
    if not isinstance(message, dict):
        raise WireError("a message is a JSON object")
    return message


def connect(address: str, timeout: float) -> socket.socket:
    """A blocking connection; `OSError` where nobody listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def listen(address: str) -> socket.socket:
    """A non-blocking listener that this user alone may connect to. A socket left over at the address is replaced."""
    Path(address).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)  # bind() creates the file: a chmod afterwards would leave it open for a moment
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(previous)
    listener.listen(128)
    listener.setblocking(False)
    return listener


def socket_address(run_dir: str | Path, name: str) -> str:
    """Where the socket `name` of the service that runs in `run_dir` is to be found.

    It lies in `run_dir`, or, where that path is too long for a socket, in a directory of the temp directory that
    belongs to this user alone and is named after `run_dir`. `PermissionError` where somebody else made it.
    """
    directory = Path(run_dir).absolute()
    address = str(directory / name)
    if len(os.fsencode(address)) <= _MAX_SOCKET_PATH:
        return address
    return str(_short_directory(directory) / name)


def _short_directory(run_dir: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / f"lmsp-{os.getuid()}-{digest}"
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()  # not stat(): in a shared directory somebody may have put a link there
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{directory} is not a directory of this user alone")
    return directory
