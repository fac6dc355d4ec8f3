"""Framing, addresses and slow readers."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models_app.engines import wire
from models_app.engines.connection import Connection
from models_app.engines.wire import LineDecoder, WireError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_messages_survive_every_way_to_cut_the_stream() -> None:
    sent: list[dict[str, Any]] = [{"text": "é🎉\n\u2028"}, {}, {"tokens": [1, 2, 3], "nested": {"a": None}}]
    stream = b"".join(wire.encode(message) for message in sent)
    for size in range(1, len(stream) + 1):
        decoder = LineDecoder()
        received = [message for at in range(0, len(stream), size) for message in decoder.feed(stream[at : at + size])]
        assert received == sent


@pytest.mark.parametrize("line", [b"{\n", b"[1]\n", b"\xff\n", b"\n"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        LineDecoder().feed(line)


def test_a_message_without_an_end_is_refused() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"x" * wire.MAX_LINE) == []
    with pytest.raises(WireError, match="too long"):
        decoder.feed(b"x")


def test_a_socket_lies_in_the_run_directory_for_its_user_alone(tmp_path: Path) -> None:
    address = wire.socket_address(tmp_path, "e.sock")
    assert address == str(tmp_path / "e.sock")
    with wire.listen(address):
        assert stat.S_IMODE(Path(address).stat().st_mode) == 0o600
        wire.connect(address, 1).close()


def test_a_socket_left_over_is_replaced(tmp_path: Path) -> None:
    address = wire.socket_address(tmp_path, "e.sock")
    wire.listen(address).close()
    with pytest.raises(OSError, match="refused"):
        wire.connect(address, 1)
    with wire.listen(address):
        wire.connect(address, 1).close()


def _long(directory: Path) -> Path:
    return directory / ("d" * 60) / ("e" * 60)


def test_a_path_too_long_for_a_socket_has_a_short_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    address = wire.socket_address(_long(tmp_path), "e.sock")
    assert len(os.fsencode(address)) <= 107
    assert address == wire.socket_address(_long(tmp_path), "e.sock")
    assert address != wire.socket_address(_long(tmp_path) / "other", "e.sock")
    assert stat.S_IMODE(Path(address).parent.stat().st_mode) == 0o700
    with wire.listen(address):
        wire.connect(address, 1).close()


@pytest.mark.parametrize("forgery", ["open to others", "a link", "a file"])
def test_a_short_directory_that_somebody_else_could_have_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgery: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = Path(wire.socket_address(_long(tmp_path), "e.sock")).parent
    if forgery == "open to others":
        directory.chmod(0o755)
    else:
        directory.rmdir()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        if forgery == "a link":
            directory.symlink_to(elsewhere)
        else:
            directory.touch(mode=0o600)
    with pytest.raises((PermissionError, FileExistsError)):
        wire.socket_address(_long(tmp_path), "e.sock")


def test_a_sender_never_waits_and_loses_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    backlogged: list[Connection] = []
    connection = Connection(ours, 10**8, backlogged.append)
    sent = [{"number": number, "filling": "x" * 1000} for number in range(2000)]
    for message in sent:
        connection.send(message)
    assert backlogged == [connection], "it says once that it has a backlog"
    decoder = LineDecoder()
    received: list[dict[str, Any]] = []
    while len(received) < len(sent):
        received += decoder.feed(theirs.recv(65536))
        connection.flush()
    assert received == sent
    assert not connection.has_backlog


def test_a_reader_that_leaves_too_much_lying_is_hung_up_on(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    connection = Connection(ours, 10_000, lambda _connection: None)
    had_backlog = False
    while not had_backlog or connection.has_backlog:
        had_backlog = connection.has_backlog
        connection.send({"filling": "x" * 1000})
    with pytest.raises(EOFError):
        connection.receive()
    while theirs.recv(65536):
        pass


def test_sending_to_somebody_who_left_is_no_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    connection = Connection(ours, 10_000, lambda _connection: None)
    theirs.close()
    connection.send({})
    connection.send({})
    with pytest.raises(EOFError):
        connection.receive()
    connection.close()
    connection.send({})
