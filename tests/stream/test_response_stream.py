"""Streams of /v1/responses: what the official clients read."""

from typing import Any

import pytest

from tests.api.bodies import STORY, body, error
from tests.service import Service, eventually
from tests.stream import sse

TASK_STREAM_ONLY = {"response.loading", "response.cancelling"}


def test_a_frame_has_its_type_and_its_data_and_no_id(service: Service) -> None:
    with service.http() as http:
        received = sse.read(http, "/v1/responses", method="POST", json=body(stream=True))
    events = sse.events(received)
    for frame in received[:-1]:
        assert [name for name, _ in frame.fields] == ["event", "data"]
        assert frame.field("event") == frame.event["type"]
        assert "error" not in frame.event
    assert [events[0]["type"], events[1]["type"], events[-1]["type"]] == [
        "response.created",
        "response.queued",
        "response.incomplete",
    ]


@pytest.mark.parametrize("background", [False, True])
def test_a_stream_is_the_log_without_what_open_responses_does_not_know(service: Service, *, background: bool) -> None:
    with service.http() as http:
        request = body(stream=True, background=background)
        events = sse.events(sse.read(http, "/v1/responses", method="POST", json=request))
    log = service.events(events[0]["response"]["lmsp"]["task_id"])
    assert events == [event for event in log if event["type"] not in TASK_STREAM_ONLY]
    assert events[0]["response"]["background"] is background


@pytest.fixture(scope="module")
def cancelled(service: Service) -> dict[str, Any]:
    """A task cancelled while it ran, so that its log has an event that responses do not show."""
    task_id = service.create(STORY, max_output_tokens=300)["id"]
    eventually(lambda: service.task(task_id)["output_text"], 60)
    service.request("POST", f"/v1/tasks/{task_id}/cancel")
    return service.finished(task_id)


def test_a_replay_keeps_the_numbers_and_their_gaps(service: Service, cancelled: dict[str, Any]) -> None:
    path = f"/v1/responses/{cancelled['response_id']}"
    with service.http() as http:
        replayed = sse.events(sse.read(http, path, params={"stream": "true"}))
    log = service.events(cancelled["id"])
    assert log[-2]["type"] == "response.cancelling"
    assert replayed == [event for event in log if event["type"] not in TASK_STREAM_ONLY]
    assert replayed[-1]["sequence_number"] == replayed[-2]["sequence_number"] + 2


@pytest.mark.parametrize("back", [1, 2, 3, 6])
def test_starting_after_resumes(service: Service, cancelled: dict[str, Any], back: int) -> None:
    cursor = cancelled["last_sequence_number"] - back
    parameters = {"stream": "true", "starting_after": cursor}
    with service.http() as http:
        path = f"/v1/responses/{cancelled['response_id']}"
        whole = sse.events(sse.read(http, path, params={"stream": "true"}))
        rest = sse.events(sse.read(http, path, params=parameters))
    assert rest == [event for event in whole if event["sequence_number"] > cursor]
    assert rest


def test_a_replay_follows_a_response_that_still_runs(service: Service) -> None:
    response = service.request("POST", "/v1/responses", json=body(STORY, max_output_tokens=16, background=True)).json()
    with service.http() as http:
        path = f"/v1/responses/{response['id']}"
        followed = sse.events(sse.read(http, path, params={"stream": "true"}))
        replayed = sse.events(sse.read(http, path, params={"stream": "true"}))
    assert followed == replayed
    assert followed[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("value", ["-1", "", "x", "1.0", "9" * 30])
def test_a_bad_cursor_is_refused(service: Service, cancelled: dict[str, Any], value: str) -> None:
    parameters = {"stream": "true", "starting_after": value}
    answer = service.request("GET", f"/v1/responses/{cancelled['response_id']}", params=parameters)
    assert error(answer, 400)["param"] == "starting_after"


def test_an_unknown_response_is_no_stream(service: Service) -> None:
    answer = service.request("GET", "/v1/responses/resp_unknown", params={"stream": "true"})
    assert error(answer, 404)["code"] == "response_not_found"


def test_a_streamed_request_that_is_refused_is_answered_in_the_envelope(service: Service) -> None:
    with service.http() as http:
        answer = http.post("/v1/responses", json=body(stream=True, model="unknown"), headers=sse.ACCEPT)
    assert error(answer, 404)["code"] == "model_not_found"
