"""A service that is killed in the middle of arguments and of reasoning goes on in the middle of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests import thinking_model
from tests.conformance import open_responses
from tests.service import MODEL, Service, eventually

THINKING = "thinking"
LISTED = {
    "type": "object",
    "properties": {
        "cities": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 8, "maxItems": 8}
    },
    "required": ["cities"],
    "additionalProperties": False,
}
CALL: dict[str, Any] = {
    "model": MODEL,
    "input": "Which cities are large?",
    "tools": [{"type": "function", "name": "list_cities", "parameters": LISTED}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
}
THOUGHT: dict[str, Any] = {"model": THINKING, "input": "Why is the sea salty?", "max_output_tokens": 60}


@pytest.fixture
def thinking_service(tmp_path: Path) -> Any:
    """A service with a model that thinks, beside the one that does not."""
    with Service(tmp_path / "data") as running:
        running.manage("add_model", str(thinking_model.make(tmp_path / "thinking.gguf")), "--id", THINKING)
        yield running


def begin(service: Service, request: dict[str, Any]) -> str:
    fields = {"temperature": 0, "background": True, "on_restart": "resume", **request}
    answer = service.request("POST", "/v1/responses", json=fields)
    assert answer.status_code == 202, answer.text
    task_id: str = answer.json()["lmsp"]["task_id"]
    return task_id


def deltas(service: Service, task_id: str) -> list[str]:
    kinds = ("response.function_call_arguments.delta", "response.reasoning_summary_text.delta")
    return [event["delta"] for event in service.events(task_id) if event["type"] in kinds]


def response_of(service: Service, task_id: str) -> dict[str, Any]:
    service.finished(task_id)
    response: dict[str, Any] = service.events(task_id)[-1]["response"]
    open_responses.check_response(response)
    return response


def test_arguments_and_reasoning_go_on_where_they_were(thinking_service: Service) -> None:
    service = thinking_service
    for warm in (CALL, THOUGHT):
        response_of(service, begin(service, {**warm, "max_output_tokens": 1}))
    cut: list[str] = []
    for request in (CALL, THOUGHT):
        cut.append(begin(service, request))
        eventually(lambda: len(deltas(service, cut[-1])) > 2, 60)
    service.kill()
    service.start()
    call, thought = (response_of(service, task_id) for task_id in cut)
    for task_id, response in zip(cut, (call, thought), strict=True):
        events = service.events(task_id)
        for event in events:
            if event["type"] not in ("response.loading", "response.cancelling"):
                open_responses.check_event(event)
        assert [event["exact"] for event in events if event.get("resumed")] == [True]
        assert [event["type"] for event in events].count("response.output_item.added") == 1
        (item,) = response["output"]
        said = item["arguments"] if item["type"] == "function_call" else item["summary"][0]["text"]
        assert "".join(deltas(service, task_id)) == said
    (item,) = call["output"]
    assert (item["type"], item["status"], call["status"]) == ("function_call", "completed", "completed")
    Draft202012Validator(LISTED).validate(json.loads(item["arguments"]))
    (item,) = thought["output"]
    assert item["type"] == "reasoning"
    assert thought["usage"]["output_tokens_details"]["reasoning_tokens"] == thought["usage"]["output_tokens"]
    assert service.check_log()["violations"] == []
    # Undisturbed, both say the same.
    twins = [response_of(service, begin(service, request)) for request in (CALL, THOUGHT)]
    assert twins[0]["output"][0]["arguments"] == call["output"][0]["arguments"]
    assert twins[1]["output"][0]["summary"] == thought["output"][0]["summary"]
    assert [twin["usage"] for twin in twins] == [call["usage"], thought["usage"]]
    # What it has thought is an item of the conversation, and is not said to the model again.
    listed = service.request("GET", f"/v1/responses/{begin_next(service, twins[1])}/input_items?order=asc").json()
    assert [entry["type"] for entry in listed["data"]] == ["message", "reasoning", "message"]


def begin_next(service: Service, previous: dict[str, Any]) -> str:
    request = {**THOUGHT, "input": "And why blue?", "previous_response_id": previous["id"], "max_output_tokens": 2}
    return str(response_of(service, begin(service, request))["id"])
