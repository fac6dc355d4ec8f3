"""How a socket is closed to one who may not have it, byte by byte."""

import socket
import time
from contextlib import closing, suppress

import pytest

from clients_app.scopes import TASKS_READ
from tests.api.clients import paired
from tests.service import Service, eventually
from tests.stream import by_hand, raw

CLOSE_4401 = b"\x88\x02" + (4401).to_bytes(2)
# Frames of a client are masked; these by zeros.
TEXT = b"\x81\x82\0\0\0\0{}"
CLOSE = b"\x88\x82\0\0\0\0" + (4401).to_bytes(2)


def until_closed(connection: socket.socket) -> bytes:
    """Return all that comes until the connection ends; the close frame is answered, as it must be."""
    received = bytearray()
    # What the service has not read of it by its end is answered with a reset.
    with closing(connection), suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            received += piece
            if received.endswith(CLOSE_4401):
                connection.sendall(CLOSE)
    return bytes(received)


@pytest.mark.parametrize("path", ["/v1/events", "/v1/responses"])
def test_who_speaks_before_being_refused_is_closed_at_once(service: Service, path: str) -> None:
    """An answer would wait for the end of a connection that nobody reads: until the next ping, after 20 s."""
    logged, began = service.log.stat().st_size, time.monotonic()
    # It has to be heard while the token is being looked at.
    for _ in range(40):
        speaker = raw.open_stream(service, path, websocket=True, token="nobody's")
        told = speaker.recv(1)
        speaker.sendall(TEXT)
        told += until_closed(speaker)
        assert told.count(b'"type":"error"') == 1
        assert told.endswith(CLOSE_4401)
    assert time.monotonic() - began < 15
    assert b"unforeseen" not in service.log.read_bytes()[logged:]


def test_nothing_follows_when_a_slow_reader_is_withdrawn(service: Service) -> None:
    client = paired(service, "slow", TASKS_READ)
    task_id = by_hand.finished(service, "slow", 20_000)
    service.sql("UPDATE tasks SET client_id = ? WHERE id = ?", client.id, task_id)
    path = f"/v1/tasks/{task_id}/events"
    reader = raw.open_stream(service, path, websocket=True, receive_buffer=4096, token=client.token)
    assert reader.recv(1024).startswith(b"HTTP/1.1 101")
    logged = service.log.stat().st_size
    service.sql("UPDATE clients SET revoked_at = datetime('now') WHERE id = ?", client.id)
    eventually(lambda: b"withdrawn" in service.log.read_bytes()[logged:], 5)
    told = until_closed(reader)
    # What had been sent before is all there is: the log has 4 MB.
    assert len(told) < 2_000_000
    sent, _, last = told.partition(b'{"type":"error"')
    assert b"response.output_text.delta" in sent
    assert b"invalid_token" in last
    assert b"response.output_text.delta" not in last
    assert last.endswith(CLOSE_4401)
