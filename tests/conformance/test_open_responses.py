"""Section 3: what /v1/responses sends is what Open Responses has, key by key."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.api.bodies import STORY, body
from tests.conformance import open_responses
from tests.service import Service, eventually
from tests.stream import sse


def test_a_response_object_has_31_required_keys() -> None:
    assert len(open_responses.REQUIRED) == 31


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_output_tokens": 64},
        {"background": True},
        {"instructions": "Be brief.", "metadata": {"a": "b"}, "top_p": 0, "stop": ["."], "store": True, "seed": 1},
        {"temperature": 1, "top_p": 1, "presence_penalty": 1, "frequency_penalty": -1},
        {"reasoning": {"effort": "none"}, "tool_choice": "none", "parallel_tool_calls": False, "max_tool_calls": 1},
        {"truncation": "auto", "service_tier": "flex", "safety_identifier": "ann", "prompt_cache_key": "sea"},
        {"include": ["reasoning.encrypted_content"], "top_logprobs": 0, "stream_options": {}},
    ],
)
def test_a_created_response_is_one(service: Service, fields: dict[str, Any]) -> None:
    response = service.request("POST", "/v1/responses", json=body(**fields)).json()
    open_responses.check_response(response)
    service.finished(response["lmsp"]["task_id"])
    open_responses.check_response(service.request("GET", f"/v1/responses/{response['id']}").json())


@pytest.mark.parametrize("most", [4, 64])
def test_every_event_of_a_stream_is_one(service: Service, most: int) -> None:
    with service.http() as http:
        request = body(stream=True, max_output_tokens=most)
        events = sse.events(sse.read(http, "/v1/responses", method="POST", json=request))
    for event in events:
        open_responses.check_event(event)
    assert events[-1]["type"] == ("response.incomplete" if most == 4 else "response.completed")


def test_every_event_of_a_cancelled_response_is_one(service: Service) -> None:
    request = body(STORY, background=True, max_output_tokens=300)
    response = service.request("POST", "/v1/responses", json=request).json()
    path = f"/v1/responses/{response['id']}"
    eventually(lambda: service.request("GET", path).json()["output"], 60)
    service.request("POST", f"{path}/cancel")
    service.finished(response["lmsp"]["task_id"])
    with service.http() as http:
        events = sse.events(sse.read(http, path, params={"stream": "true"}))
    for event in events:
        open_responses.check_event(event)
    assert events[-1]["type"] == "response.cancelled"


def test_items_and_their_compact_form_are_ones(service: Service) -> None:
    said = [
        {"type": "message", "role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}], "content": None},
        {"type": "message", "role": "assistant", "content": "Hello.", "phase": "commentary", "id": None},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "status": None},
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    ]
    response = service.request("POST", "/v1/responses", json=body() | {"input": said}).json()
    open_responses.check_response(response)
    listed = service.request("GET", f"/v1/responses/{response['id']}/input_items").json()
    assert len(listed["data"]) == len(said)
    open_responses.check_items(listed["data"])
    window = service.request("POST", "/v1/responses/compact", json={"model": response["model"], "input": said}).json()
    open_responses.check_compaction(window)


def test_a_running_response_is_one(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=300)
    path = f"/v1/responses/{task['response_id']}"
    eventually(lambda: service.request("GET", path).json()["output"], 60)
    response = service.request("GET", path).json()
    open_responses.check_response(response)
    assert response["status"] == response["output"][0]["status"] == "in_progress"
    assert response["usage"] is None
    service.request("POST", f"/v1/tasks/{task['id']}/cancel")


def test_what_is_left_out_is_not_sent_as_null(service: Service) -> None:
    response = service.request("POST", "/v1/responses", json=body()).json()
    assert response["text"] == {"format": {"type": "text"}}
    assert "phase" not in response["output"][0]


def test_the_check_itself_finds_what_is_wrong(service: Service) -> None:
    response = service.request("POST", "/v1/responses", json=body()).json()
    for name in open_responses.REQUIRED:
        with pytest.raises(ValidationError):
            open_responses.check_response({key: value for key, value in response.items() if key != name})
    with pytest.raises(ValidationError):
        open_responses.check_response(response | {"created_at": "now"})
    with pytest.raises(AssertionError):
        open_responses.check_response(response | {"extra": None})
