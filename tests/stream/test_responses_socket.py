"""WS /v1/responses: responses one after the other on one socket."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.api.bodies import STORY, TOO_LONG, body
from tests.service import Service, eventually
from tests.stream.conftest import SOCKET_MINUTES

TERMINAL = {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "error"}
SOON_SECONDS = 3.0


class Caller:
    """A client of the socket."""

    def __init__(self, opened: ClientConnection) -> None:
        self.opened = opened

    def say(self, **fields: Any) -> None:
        self.opened.send(json.dumps({"type": "response.create", **fields}))

    def take(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.opened.recv(timeout=60))
        return event

    def turn(self, text: str = "Hi", **fields: Any) -> list[dict[str, Any]]:
        """Ask for a response and return its events, the terminal one last."""
        self.say(**body(text, **fields))
        events = [self.take()]
        while events[-1]["type"] not in TERMINAL:
            events.append(self.take())
        return events

    def response(self, text: str = "Hi", **fields: Any) -> dict[str, Any]:
        """Ask for a response and return it as it ended."""
        last = self.turn(text, **fields)[-1]
        assert "response" in last, last
        response: dict[str, Any] = last["response"]
        return response

    def error(self, **fields: Any) -> dict[str, Any]:
        """Say what will be refused, and return the error with its status."""
        self.say(**fields)
        told = self.take()
        assert told.keys() == {"type", "status", "error"}, told
        assert told["type"] == "error"
        assert isinstance(told["error"]["message"], str)
        return {"status": told["status"], **told["error"]}


@contextmanager
def caller(service: Service) -> Iterator[Caller]:
    headers = {"Authorization": f"Bearer {service.token}"}
    with connect(f"ws://127.0.0.1:{service.port}/v1/responses", additional_headers=headers, open_timeout=30) as opened:
        yield Caller(opened)


def stored(service: Service, response_id: str) -> int:
    ((count,),) = service.sql("SELECT count(*) FROM responses WHERE id = ?", response_id)
    return int(count)


def test_turns_follow_each_other_with_the_events_of_the_log(service: Service) -> None:
    with caller(service) as one:
        turns = [one.turn(max_output_tokens=4) for _ in range(3)]
    for events in turns:
        log = service.events(events[0]["response"]["lmsp"]["task_id"])
        assert events == [event for event in log if event["type"] != "response.loading"]
        assert events[-1]["response"]["background"] is False
    texts = ["".join(event.get("delta", "") for event in events) for events in turns]
    assert len(set(texts)) == 1


def test_a_second_request_is_refused_and_the_first_goes_on(service: Service) -> None:
    with caller(service) as one:
        one.say(**body(STORY, max_output_tokens=60))
        assert one.take()["type"] == "response.created"
        one.say(**body("Hi"))
        events = [one.take()]
        while events[-1]["type"] != "response.incomplete":
            events.append(one.take())
        (refused,) = (event for event in events if event["type"] == "error")
        assert (refused["status"], refused["error"]["code"]) == (409, "response_in_progress")
        assert events[-1]["response"]["usage"]["output_tokens"] == 60
        assert one.response(max_output_tokens=1)["status"] == "incomplete"


def test_a_chain_goes_on_from_what_was_never_stored(service: Service) -> None:
    first_words = "My name is Ada. Remember it."
    with caller(service) as one:
        first = one.response(first_words, store=False, max_output_tokens=12)
        eventually(lambda: stored(service, first["id"]) == 0, 10, "the first response is gone")
        second = one.response("What is my name?", previous_response_id=first["id"], store=False, max_output_tokens=12)
        third = one.response("Say it again.", previous_response_id=second["id"], max_output_tokens=4)
    assert second["previous_response_id"] == first["id"]
    assert third["previous_response_id"] == second["id"]
    # The same conversation in one request has the same tokens, and so the same answer.
    words = [
        {"role": "user", "content": first_words},
        *({"role": "assistant", "content": item["content"]} for item in first["output"]),
        {"role": "user", "content": "What is my name?"},
    ]
    whole = service.request("POST", "/v1/responses", json=body(max_output_tokens=12) | {"input": words}).json()
    assert whole["usage"] == second["usage"]
    assert [item["content"] for item in whole["output"]] == [item["content"] for item in second["output"]]


def test_what_was_not_stored_is_known_to_its_own_socket_alone(service: Service) -> None:
    with caller(service) as one, caller(service) as other:
        first = one.response(store=False, max_output_tokens=2)
        for refused in (
            other.error(**body("And?", previous_response_id=first["id"])),
            one.error(**body("And?", previous_response_id="resp_unknown")),
        ):
            assert (refused["status"], refused["code"]) == (400, "previous_response_not_found")
            assert refused["param"] == "previous_response_id"
        # Somebody's mistake elsewhere has not made it forget.
        assert (
            one.response(previous_response_id=first["id"], store=False, max_output_tokens=2)["status"] == "incomplete"
        )


def test_only_the_last_response_is_remembered(service: Service) -> None:
    with caller(service) as one:
        first = one.response(store=False, max_output_tokens=2)
        one.response(store=False, max_output_tokens=2)
        refused = one.error(**body("And?", previous_response_id=first["id"], store=False))
    assert refused["code"] == "previous_response_not_found"


def test_a_turn_that_fails_makes_it_forget(service: Service) -> None:
    with caller(service) as one:
        first = one.response(store=False, max_output_tokens=2)
        refused = one.error(**body(TOO_LONG, previous_response_id=first["id"]))
        assert refused["code"] == "context_length_exceeded"
        refused = one.error(**body("And?", previous_response_id=first["id"]))
        assert refused["code"] == "previous_response_not_found"


def test_a_warm_up_generates_nothing_and_can_be_gone_on_from(service: Service) -> None:
    service.settle()
    tasks = service.sql("SELECT count(*) FROM tasks")
    with caller(service) as one:
        events = one.turn("My name is Ada.", generate=False)
        assert [event["type"] for event in events] == ["response.created", "response.completed"]
        warm = events[-1]["response"]
        assert (warm["output"], warm["usage"]["output_tokens"]) == ([], 0)
        assert service.sql("SELECT count(*) FROM tasks") == tasks
        went_on = one.response("What is my name?", previous_response_id=warm["id"], max_output_tokens=2)
    assert went_on["usage"]["input_tokens"] > warm["usage"]["input_tokens"]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"background": True}, "invalid_request", "background"),
        ({"stream": False}, "invalid_request", "stream"),
        ({"stream_id": "a"}, "invalid_request", "stream_id"),
        ({"generate": "no"}, "invalid_request", "generate"),
        ({"model": "unknown"}, "model_not_found", "model"),
        ({"temperature": 9}, "invalid_value", "temperature"),
        ({"input": TOO_LONG}, "context_length_exceeded", "input"),
        ({"type": "response.steer"}, "invalid_request", "type"),
    ],
)
def test_a_refused_request_is_an_error_frame_and_the_socket_goes_on(
    service: Service, fields: dict[str, Any], code: str, param: str
) -> None:
    with caller(service) as one:
        refused = one.error(**body(**fields)) if "input" not in fields else one.error(**body() | fields)
        assert refused["code"] == code
        assert refused["param"] in (param, None)
        assert refused["status"] == (404 if code == "model_not_found" else 400)
        assert one.response(max_output_tokens=1)["status"] == "incomplete"


def test_no_json_is_an_error_frame(service: Service) -> None:
    with caller(service) as one:
        for frame in ("no json", "[]", b"\x00"):
            one.opened.send(frame)
            assert one.take()["error"]["code"] == "invalid_json"


@pytest.mark.parametrize("fields", [{}, {"stream": True, "background": False, "generate": True}])
def test_a_caller_that_leaves_takes_the_response_along(service: Service, fields: dict[str, Any]) -> None:
    with caller(service) as one:
        one.say(**body(STORY, max_output_tokens=1000, **fields))
        task_id = one.take()["response"]["lmsp"]["task_id"]
        while one.take()["type"] != "response.output_text.delta":
            pass
    left = time.monotonic()
    assert service.finished(task_id)["status"] == "cancelled"
    assert time.monotonic() - left < SOON_SECONDS


def test_a_caller_that_leaves_at_once_leaves_nothing_running(service: Service) -> None:
    for number in range(3):
        with caller(service) as one:
            one.say(**body(STORY, max_output_tokens=1000, metadata={"name": f"at once {number}"}))
    find = "SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.name') LIKE 'at once%' AND finished_at IS NULL"
    eventually(lambda: service.sql(find) == [(0,)], 20, "none of them runs on")
    service.check_log()


def test_a_token_that_was_revoked_gets_no_further_turn(service: Service) -> None:
    paired = service.manage("create_client", "soon revoked")
    headers = {"Authorization": f"Bearer {paired['token']}"}
    url = f"ws://127.0.0.1:{service.port}/v1/responses"
    with connect(url, additional_headers=headers, open_timeout=30) as opened:
        one = Caller(opened)
        assert one.response(max_output_tokens=1)["status"] == "incomplete"
        service.sql("UPDATE clients SET revoked_at = '2026-01-01 00:00:00' WHERE id = ?", paired["client_id"])
        assert one.error(**body())["code"] == "invalid_token"


def test_an_old_socket_is_told_to_be_renewed_and_closed(impatient: Service) -> None:
    began = time.monotonic()
    with caller(impatient) as one:
        assert one.response(max_output_tokens=1)["status"] == "incomplete"
        told = one.take()
        assert (told["type"], told["error"]["code"]) == ("error", "websocket_connection_limit_reached")
        assert time.monotonic() - began > SOCKET_MINUTES * 60 * 0.9
        with pytest.raises(ConnectionClosed) as closed:
            one.take()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400


def test_an_old_socket_ends_its_response_first(impatient: Service) -> None:
    began = time.monotonic()
    with caller(impatient) as one:
        one.say(**body(STORY, max_output_tokens=4000))
        events = [one.take()]
        while time.monotonic() - began < SOCKET_MINUTES * 60 + 1:
            events.append(one.take())
        impatient.request("POST", f"/v1/tasks/{events[0]['response']['lmsp']['task_id']}/cancel")
        while events[-1]["type"] != "response.cancelled":
            events.append(one.take())
        assert one.take()["error"]["code"] == "websocket_connection_limit_reached"
