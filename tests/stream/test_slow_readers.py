"""Readers that do not read: what they cost, how long they are waited for, and what they miss, which is nothing."""

import json
import re
import time
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.service import Service, eventually
from tests.stream import by_hand, sse
from tests.stream.conftest import PATIENCE_SECONDS
from tests.stream.raw import WebProcess, open_stream, read_to_the_end

EVENTS = 50_000
SLOW_READERS = 10
# One reader of this log for whom everything was kept would cost 18 MB.
MEGABYTES = 8.0


@pytest.fixture(scope="module")
def log(impatient: Service) -> str:
    """The address of a long log."""
    return f"/v1/tasks/{by_hand.finished(impatient, 'long', EVENTS)}/events"


def numbers(received: bytes) -> list[int]:
    """Return the numbers of the events that came whole."""
    return [int(number) for number in re.findall(rb'"sequence_number":(\d+)[^}]*\}', received)]


def rest_by_sse(service: Service, path: str, after: int) -> list[dict[str, Any]]:
    with service.http() as http:
        return sse.events(sse.read(http, path, headers={"Last-Event-ID": str(after)}))


def rest_by_websocket(service: Service, path: str, after: int) -> list[dict[str, Any]]:
    url = f"ws://127.0.0.1:{service.port}{path}?after={after}"
    with connect(url, additional_headers={"Authorization": f"Bearer {service.token}"}, open_timeout=30) as opened:
        return [json.loads(message) for message in opened]


@pytest.mark.parametrize("websocket", [False, True])
def test_readers_that_read_nothing_cost_little_are_closed_and_miss_nothing(
    impatient: Service, log: str, *, websocket: bool
) -> None:
    web = WebProcess(impatient)
    # What the first calls leave behind is there already.
    impatient.finished(impatient.create("Hi", max_output_tokens=1)["id"])
    rest_by_sse(impatient, log, EVENTS - 1000)
    before, sockets = web.megabytes, web.sockets
    sleeping = [open_stream(impatient, log, websocket=websocket) for _ in range(SLOW_READERS)]
    began = time.monotonic()
    # Meanwhile others read, and tasks run.
    generated = impatient.finished(impatient.create("Hi", max_output_tokens=8)["id"])
    assert generated["status"] == "completed"
    assert [event["sequence_number"] for event in rest_by_sse(impatient, log, 40_000)] == list(range(40_001, 50_001))
    eventually(lambda: web.sockets <= sockets, 60, "all of them have been closed")
    assert time.monotonic() - began > PATIENCE_SECONDS * 0.9
    assert web.megabytes - before < MEGABYTES
    seen = [numbers(read_to_the_end(connection)) for connection in sleeping]
    for one in seen:
        assert one == list(range(len(one)))
        assert 0 < len(one) < EVENTS
    rest = (rest_by_websocket if websocket else rest_by_sse)(impatient, log, seen[0][-1])
    assert [event["sequence_number"] for event in rest] == list(range(seen[0][-1] + 1, EVENTS + 1))


@pytest.mark.parametrize("websocket", [False, True])
def test_a_reader_that_reads_slowly_is_waited_for(impatient: Service, *, websocket: bool) -> None:
    path = f"/v1/tasks/{by_hand.finished(impatient, f'slowly{int(websocket)}', 4000)}/events"
    connection = open_stream(impatient, path, websocket=websocket, receive_buffer=1 << 15)
    received = bytearray()
    until = time.monotonic() + 2 * PATIENCE_SECONDS
    while time.monotonic() < until:
        received += connection.recv(1 << 14)
        time.sleep(0.25)  # What it does between two reads.
    received += read_to_the_end(connection)
    assert numbers(bytes(received)) == list(range(4001))


def test_idle_readers_are_not_slow(impatient: Service) -> None:
    task_id = by_hand.idle(impatient, "quiet")
    path = f"/v1/tasks/{task_id}/events"
    url = f"ws://127.0.0.1:{impatient.port}{path}"
    headers = {"Authorization": f"Bearer {impatient.token}"}
    with (
        impatient.http() as http,
        sse.stream(http, path) as arriving,
        connect(url, additional_headers=headers, open_timeout=30, ping_interval=None) as opened,
    ):
        first = [next(arriving).event, next(arriving).event]
        assert [json.loads(opened.recv(timeout=30)) for _ in first] == first
        with pytest.raises(TimeoutError):
            opened.recv(timeout=2 * PATIENCE_SECONDS)
        assert http_cancel(impatient, task_id).status_code == 200
        assert json.loads(opened.recv(timeout=30))["type"] == "response.cancelled"
        assert [frame.data for frame in arriving][-1] == sse.DONE


def http_cancel(service: Service, task_id: str) -> httpx.Response:
    return service.request("POST", f"/v1/tasks/{task_id}/cancel")
