"""WS /v1/tasks/{id}/events?after=N."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from socket import create_connection
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.api.bodies import STORY
from tests.service import Service


@contextmanager
def socket(
    service: Service, task_id: str, *, after: str | None = None, authorization: str | None = None, **options: Any
) -> Iterator[ClientConnection]:
    """Open the websocket of a task."""
    query = "" if after is None else f"?after={after}"
    headers = {"Authorization": authorization or f"Bearer {service.token}"}
    url = f"ws://127.0.0.1:{service.port}/v1/tasks/{task_id}/events{query}"
    with connect(url, additional_headers=headers, open_timeout=30, **options) as opened:
        yield opened


def receive(opened: ClientConnection, events: list[dict[str, Any]]) -> None:
    while True:
        events.append(json.loads(opened.recv(timeout=60)))


def read(opened: ClientConnection) -> list[dict[str, Any]]:
    """Read to the normal end."""
    events: list[dict[str, Any]] = []
    with pytest.raises(ConnectionClosedOK) as closed:
        receive(opened, events)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    return events


def refusal(opened: ClientConnection) -> tuple[dict[str, Any], int]:
    """Return the error that was sent, and the close code."""
    envelope = json.loads(opened.recv(timeout=30))
    assert envelope.keys() == {"type", "status", "error"}
    with pytest.raises(ConnectionClosed) as closed:
        opened.recv(timeout=30)
    assert closed.value.rcvd is not None
    return envelope["error"], closed.value.rcvd.code


@pytest.fixture(scope="module")
def done(service: Service) -> dict[str, Any]:
    return service.finished(service.create("Hi", max_output_tokens=4)["id"])


def test_the_log_comes_one_event_a_message_and_ends_normally(service: Service, done: dict[str, Any]) -> None:
    with socket(service, done["id"]) as opened:
        assert read(opened) == service.events(done["id"])


@pytest.mark.parametrize("cursor", [0, 3])
def test_after_resumes(service: Service, done: dict[str, Any], cursor: int) -> None:
    with socket(service, done["id"], after=str(cursor)) as opened:
        assert read(opened) == service.events(done["id"])[cursor + 1 :]


def test_after_the_last_event_it_ends_at_once(service: Service, done: dict[str, Any]) -> None:
    with socket(service, done["id"], after=str(done["last_sequence_number"])) as opened:
        assert read(opened) == []


def test_it_follows_a_running_task_whatever_the_reader_says(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=16)
    with socket(service, task["id"]) as opened:
        opened.send("hello?")
        opened.send(b"\x00\xff")
        events = read(opened)
    assert events == service.events(task["id"])
    assert events[-1]["type"] == "response.incomplete"


def test_a_reader_that_hangs_up_takes_nothing_along(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=16)
    with socket(service, task["id"]) as opened:
        opened.recv(timeout=30)
    assert service.finished(task["id"])["status"] == "completed"


@pytest.mark.parametrize("authorization", ["Bearer lmsp_wrong", "Basic dTpw", "Bearer"])
def test_a_wrong_token_is_told_in_a_frame_and_closes_4401(
    service: Service, done: dict[str, Any], authorization: str
) -> None:
    with socket(service, done["id"], authorization=authorization) as opened:
        error, code = refusal(opened)
    assert (error["code"], code) == ("invalid_token", 4401)


def test_a_missing_scope_closes_4403_whatever_the_id(service: Service, done: dict[str, Any]) -> None:
    token = service.pair("cannot read", "models:read")
    for task_id in (done["id"], "task_unknown"):
        with socket(service, task_id, authorization=f"Bearer {token}") as opened:
            error, code = refusal(opened)
        assert (error["code"], code) == ("insufficient_scope", 4403)


def test_a_foreign_and_an_unknown_id_close_4404(service: Service, stranger: httpx.Client, done: dict[str, Any]) -> None:
    never = f"task_{'0' * 26}"
    told = []
    for task_id in (done["id"], never):
        with socket(service, task_id, authorization=stranger.headers["Authorization"]) as opened:
            error, code = refusal(opened)
        assert (error["code"], code) == ("task_not_found", 4404)
        told.append(error["message"].replace(done["id"], never))
    assert told[0] == told[1]


@pytest.mark.parametrize("after", ["-1", "x", "", "1.5", "9" * 30])
def test_a_bad_cursor_closes_4400_and_sends_no_event(service: Service, done: dict[str, Any], after: str) -> None:
    with socket(service, done["id"], after=after) as opened:
        error, code = refusal(opened)
    assert (error["code"], error["param"], code) == ("invalid_cursor", "after", 4400)


def test_a_foreign_host_is_refused_before_the_handshake(service: Service, done: dict[str, Any]) -> None:
    url = f"ws://evil.example:{service.port}/v1/tasks/{done['id']}/events"
    headers = {"Authorization": f"Bearer {service.token}"}
    with create_connection(("127.0.0.1", service.port)) as plain, pytest.raises(InvalidStatus) as refused:
        connect(url, sock=plain, additional_headers=headers, open_timeout=30)
    assert refused.value.response.status_code == 400


def test_an_address_without_a_websocket_closes_4404(service: Service) -> None:
    with connect(f"ws://127.0.0.1:{service.port}/v1/nothing", open_timeout=30) as opened:
        error, code = refusal(opened)
    assert (error["code"], code) == ("not_found", 4404)
