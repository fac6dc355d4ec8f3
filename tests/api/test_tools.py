"""Tools of a request on the real model: calls that it is made to make, what a choice leaves, and the way back."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.api.bodies import CHAT, body, chat, error
from tests.conformance import open_responses
from tests.stream import sse

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "unit", "days"],
        "additionalProperties": False,
    },
    "strict": True,
}
NOW = {"type": "function", "name": "now", "description": None, "parameters": None, "strict": None}
ASKED = "What is the weather in Rome?"


def ask(**fields: Any) -> dict[str, Any]:
    """Return a request whose model has to make one call."""
    request = {"tools": [WEATHER, NOW], "tool_choice": "required", "parallel_tool_calls": False}
    return body(ASKED, **{**request, "max_output_tokens": 60, "store": True, **fields})


def respond(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/responses", json=ask(**fields))
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    open_responses.check_response(response)
    return response


@pytest.fixture(scope="module")
def called(http: httpx.Client) -> dict[str, Any]:
    """A response whose only item is a call of the first tool."""
    return respond(http, tool_choice={"type": "function", "name": "get_weather"})


def arguments_of(call: dict[str, Any]) -> dict[str, Any]:
    assert (call["type"], call["status"]) == ("function_call", "completed")
    arguments: dict[str, Any] = json.loads(call["arguments"])
    schema: dict[str, Any] = {"get_weather": WEATHER["parameters"], "now": {"maxProperties": 0}}[call["name"]]
    Draft202012Validator(schema).validate(arguments)
    return arguments


def test_a_call_that_is_demanded_is_made_and_follows_its_schema(called: dict[str, Any]) -> None:
    (call,) = called["output"]
    assert call["name"] == "get_weather"
    arguments_of(call)
    assert called["status"] == "completed"
    assert called["tools"] == [WEATHER, NOW]
    assert called["tool_choice"] == {"type": "function", "name": "get_weather"}


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"get_weather", "now"}),
        ({"type": "function", "name": "now"}, {"now"}),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}, {"now"}),
    ],
)
def test_only_what_the_choice_leaves_is_called(http: httpx.Client, choice: Any, names: set[str]) -> None:
    response = respond(http, tool_choice=choice)
    (call,) = response["output"]
    assert call["name"] in names
    arguments_of(call)
    assert response["tool_choice"] == choice


def test_a_call_at_any_temperature_follows_its_schema(http: httpx.Client) -> None:
    for call in respond(http, temperature=2, seed=1)["output"]:
        arguments_of(call)


def test_several_calls_are_items_of_their_own(http: httpx.Client) -> None:
    response = respond(http, tools=[NOW], parallel_tool_calls=True, max_tool_calls=2)
    assert {call["call_id"] for call in response["output"]} == {call["call_id"] for call in response["output"]}
    for call in response["output"]:
        arguments_of(call)
    assert 1 <= len(response["output"]) <= 2
    assert len({call["id"] for call in response["output"]}) == len(response["output"])


def test_a_call_that_is_cut_is_incomplete(http: httpx.Client) -> None:
    response = respond(http, max_output_tokens=19, tool_choice={"type": "function", "name": "get_weather"})
    (call,) = response["output"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (call["type"], call["status"]) == ("function_call", "incomplete")
    assert call["arguments"].startswith("{")


def test_without_a_choice_the_model_may_answer(http: httpx.Client) -> None:
    response = respond(http, tool_choice="auto", max_output_tokens=8)
    (message,) = response["output"]
    assert message["type"] == "message"
    assert (response["tool_choice"], response["parallel_tool_calls"]) == ("auto", False)


def test_a_free_model_calls_where_a_function_is_needed_and_then_follows_the_schema(http: httpx.Client) -> None:
    """Nothing is said of `strict`: a schema that can be kept to is."""
    tool = {**WEATHER, "strict": None}
    fields: dict[str, Any] = {"tools": [tool], "tool_choice": "auto", "temperature": 1, "max_output_tokens": 60}
    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(lambda seed: respond(http, seed=seed, **fields), range(8)))
    calls = [item for each in responses for item in each["output"] if item["type"] == "function_call"]
    assert calls, "it has never called"
    for call in calls:
        if call["status"] == "completed":
            arguments_of(call)
    assert any(call["status"] == "completed" for call in calls)


def test_tools_that_may_not_be_called_are_not_shown(http: httpx.Client) -> None:
    plain = respond(http, tools=[], tool_choice="none", max_output_tokens=4)
    hidden = respond(http, tool_choice="none", max_output_tokens=4)
    assert hidden["usage"] == plain["usage"]
    assert hidden["output"][0]["content"] == plain["output"][0]["content"]


def test_what_tools_take_of_the_prompt_is_counted(http: httpx.Client, called: dict[str, Any]) -> None:
    request = {name: ask()[name] for name in ("model", "input", "tools")}
    request["tool_choice"] = called["tool_choice"]
    counted = http.post("/v1/responses/input_tokens", json=request).json()
    assert counted["input_tokens"] == called["usage"]["input_tokens"]


def test_the_events_of_a_call_add_up_to_it(http: httpx.Client) -> None:
    events = sse.events(sse.read(http, "/v1/responses", method="POST", json=ask(stream=True)))
    for event in events:
        open_responses.check_event(event)
    (call,) = events[-1]["response"]["output"]
    kinds = [event["type"].removeprefix("response.") for event in events]
    first, done = kinds.index("output_item.added"), kinds.index("function_call_arguments.done")
    assert set(kinds[first + 1 : done]) == {"function_call_arguments.delta"}
    assert kinds[done + 1 :] == ["output_item.done", "completed"]
    assert events[first]["item"] == {**call, "arguments": "", "status": "in_progress"}
    assert "".join(event["delta"] for event in events[first + 1 : done]) == call["arguments"]
    assert events[done]["arguments"] == call["arguments"]
    assert events[done + 1]["item"] == call


def test_the_way_back(http: httpx.Client, called: dict[str, Any]) -> None:
    (call,) = called["output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "It is 31 degrees and sunny."}
    later = respond(http, input=[output], previous_response_id=called["id"], tool_choice="auto", max_output_tokens=4)
    listed = http.get(f"/v1/responses/{later['id']}/input_items", params={"order": "asc"}).json()["data"]
    assert [item["type"] for item in listed] == ["message", "function_call", "function_call_output"]
    assert listed[1] == call
    whole = [{"role": "user", "content": ASKED}, call, output]
    said_again = respond(http, input=whole, tool_choice="auto", max_output_tokens=4)
    assert said_again["usage"]["input_tokens"] == later["usage"]["input_tokens"]


def test_a_conversation_with_calls_is_cut_and_compacted_with_them(http: httpx.Client, called: dict[str, Any]) -> None:
    (call,) = called["output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "31 degrees " * 3000}
    said = [{"role": "user", "content": ASKED}, call, output, {"role": "user", "content": "And now?"}]
    cut = respond(http, input=said, truncation="auto", tool_choice="auto", max_output_tokens=4)
    assert cut["lmsp"]["dropped_items"] == 3
    compacted = http.post("/v1/responses/compact", json={"model": cut["model"], "input": said[:3]}).json()
    open_responses.check_compaction(compacted)


@pytest.fixture
def chat_request() -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {name: tool[name] for name in tool if name != "type"}}
        for tool in (WEATHER, NOW)
    ]
    choice = {"type": "function", "function": {"name": "get_weather"}}
    return chat(ASKED, tools=tools, tool_choice=choice, max_tokens=60)


def test_the_chunks_of_a_call_add_up_to_it(http: httpx.Client, chat_request: dict[str, Any]) -> None:
    events = sse.read(http, CHAT, method="POST", json={**chat_request, "stream": True})
    choices = [choice for chunk in sse.events(events) for choice in chunk["choices"]]
    parts = [part for choice in choices for part in choice["delta"].get("tool_calls", ())]
    assert {part["index"] for part in parts} == {0}
    assert parts[0]["function"] == {"name": "get_weather", "arguments": ""}
    arguments = "".join(part["function"]["arguments"] for part in parts)
    Draft202012Validator(WEATHER["parameters"]).validate(json.loads(arguments))
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_an_answer_with_a_schema_is_one_where_no_call_is_made(http: httpx.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"b": {"type": "boolean"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "name": "answer", "schema": schema}}
    response = http.post("/v1/responses", json=ask(tool_choice="auto") | {"text": form}).json()
    open_responses.check_response(response)
    (item,) = response["output"]
    if item["type"] == "message":
        assert json.loads(item["content"][0]["text"]).keys() == {"b"}
    else:
        arguments_of(item)


REFUSED = {
    "the keyword": ({"properties": {"a": {"not": {"type": "string"}}}}, '"not"'),
    "the place": ({"properties": {"a": {"type": "text"}}}, "properties.a.type"),
    "what an expression has": ({"properties": {"a": {"type": "string", "pattern": "(?=x)y"}}}, "look"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_schema_that_cannot_be_kept_to_is_refused(http: httpx.Client, what: str) -> None:
    parameters, said = REFUSED[what]
    found = error(http.post("/v1/tasks", json=ask(tools=[{**WEATHER, "parameters": parameters}], store=None)), 400)
    assert (found["param"], found["code"]) == ("tools", "invalid_value")
    assert said in found["message"]


def test_a_schema_that_need_not_be_kept_to_may_say_anything(http: httpx.Client) -> None:
    tool = {**WEATHER, "parameters": REFUSED["the keyword"][0], "strict": None}
    assert respond(http, tools=[tool], tool_choice="auto", max_output_tokens=4)["tools"] == [tool]
