"""Well-formed requests that cannot be meant: the field is named, and nothing is stored."""

import re
from typing import Any

import httpx
import pytest

from tests.api.bodies import CREATING, TOO_LONG, body, error
from tests.service import MODEL

pytestmark = pytest.mark.usefixtures("nothing_stored")

CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
# A value of every JSON type, to be refused wherever another type is asked for.
TYPES: dict[str, Any] = {"null": None, "true": True, "1": 1, "1.5": 1.5, "text": "text", "[]": [], "{}": {}}
TAKES = {
    "model": {"text"},
    "input": {"text"},
    "instructions": {"null", "text"},
    "temperature": {"null", "1", "1.5"},
    "top_p": {"null", "1"},
    "presence_penalty": {"null", "1", "1.5"},
    "frequency_penalty": {"null", "1", "1.5"},
    "max_output_tokens": {"null", "1"},
    "seed": {"null", "1"},
    "stop": {"null", "text", "[]"},
    "metadata": {"null", "{}"},
    "on_restart": {"null"},
    "expires_at": {"null"},
    "priority": {"null"},
    "store": {"null", "true"},
    "stream": {"null", "true"},
    "background": {"null", "true"},
    "previous_response_id": {"null", "text"},
    "tools": {"null", "[]"},
    "text": {"null", "{}"},
    "top_logprobs": {"null", "1"},
    "logprobs": {"null", "true"},
    "top_k": {"null", "1"},
    "min_p": {"null", "1"},
    "repetition_penalty": {"null", "1", "1.5"},
    "logit_bias": {"null", "{}"},
    "truncation": {"null"},
    "include": {"null", "[]"},
    "reasoning": {"null", "{}"},
    "tool_choice": {"null"},
    "parallel_tool_calls": {"null", "true"},
    "max_tool_calls": {"null", "1"},
    "service_tier": {"null"},
    "safety_identifier": {"null", "text"},
    "prompt_cache_key": {"null", "text"},
    "conversation": {"null"},
    "prompt": {"null"},
    "context_management": {"null"},
    "moderation": {"null"},
    "background_options": {"null"},
    "personality": {"null"},
}
WRONG_TYPES = [(name, TYPES[kind]) for name, taken in TAKES.items() for kind in TYPES if kind not in taken]
WRONG_VALUES: list[tuple[str, Any]] = [
    ("model", ""),
    ("model", "x" * 201),
    ("model", ["smollm2-135m-instruct"]),
    ("input", [[]]),
    ("input", [1]),
    ("input", [{}]),
    ("input", [{"role": "user"}]),
    ("input", [{"content": "Hi"}]),
    ("input", [{"role": "robot", "content": "Hi"}]),
    ("input", [{"role": ["user"], "content": "Hi"}]),
    ("input", [{"role": {}, "content": "Hi"}]),
    ("input", [{"role": "user", "content": 1}]),
    ("input", [{"role": "user", "content": {"type": "input_text", "text": "Hi"}}]),
    ("input", [{"role": "user", "content": ["Hi"]}]),
    ("input", [{"role": "user", "content": [{"type": "input_text"}]}]),
    ("input", [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]),
    ("input", [{"role": "user", "content": [{"type": {}, "text": "Hi"}]}]),
    ("input", [{"role": "user", "content": [{"type": "refusal", "refusal": "No."}]}]),
    ("input", [{"role": "assistant", "content": [{"type": "refusal"}]}]),
    ("input", [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}] * 1025}]),
    ("input", [{"role": "user", "content": "Hi"}] * 4097),
    ("input", [{"role": "user", "content": "Hi", "id": "x" * 129}]),
    ("input", [{"role": "user", "content": "Hi", "id": "two words"}]),
    ("input", [{"role": "user", "content": "Hi", "id": 5}]),
    ("input", [{"role": "user", "content": "Hi", "id": "msg_same"}] * 2),
    ("input", [{"role": "user", "content": "Hi", "status": "done"}]),
    ("input", [{"role": "assistant", "content": "Hi", "phase": "last"}]),
    ("input", [{"type": "function_call_output", "call_id": "1", "output": "x"}]),
    ("input", [{**CALL, "call_id": ""}]),
    ("input", [{**CALL, "call_id": "x" * 65}]),
    ("input", [{**CALL, "name": "two words"}]),
    ("input", [{**CALL, "name": "x" * 129}]),
    ("input", [{**CALL, "arguments": {}}]),
    ("input", [CALL, {"type": "function_call_output", "call_id": "call_1", "output": {}}]),
    ("input", [CALL, {"type": "function_call_output", "call_id": "call_2", "output": "x"}]),
    ("input", [CALL, {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_image"}]}]),
    ("input", [{"type": "reasoning"}]),
    ("input", [{"type": "reasoning", "summary": [{"type": "output_text", "text": "x"}]}]),
    ("input", [{"type": "reasoning", "summary": [], "encrypted_content": 5}]),
    ("input", [{"type": "item_reference"}]),
    ("input", [{"type": "item_reference", "id": "one two"}]),
    ("input", [{"type": "compaction"}]),
    ("input", [{"type": "compaction", "encrypted_content": ""}]),
    ("input", [{"type": "web_search_call", "id": "ws_1"}]),
    ("input", [{"type": ["message"], "role": "user", "content": "Hi"}]),
    ("temperature", -0.01),
    ("temperature", 2.01),
    ("temperature", 1e300),
    ("top_p", -1),
    ("top_p", 1.01),
    ("presence_penalty", -2.01),
    ("presence_penalty", 2.01),
    ("frequency_penalty", -3),
    ("frequency_penalty", 3),
    ("max_output_tokens", 0),
    ("max_output_tokens", -1),
    ("max_output_tokens", 2**31),
    ("max_output_tokens", 2**53 - 1),
    ("max_output_tokens", "16"),
    ("seed", -1),
    ("expires_at", -1),
    ("expires_at", 1_700_000_000),
    ("expires_at", 10**12),
    ("stop", ""),
    ("stop", [""]),
    ("stop", ["a", 1]),
    ("stop", [["a"]]),
    ("stop", ["a"] * 17),
    ("stop", "x" * 501),
    ("metadata", {"a": 1}),
    ("metadata", {"a": None}),
    ("metadata", {"a": {"b": "c"}}),
    ("metadata", {"k" * 65: "a"}),
    ("metadata", {"a": "v" * 513}),
    ("metadata", {str(number): "a" for number in range(17)}),
    ("on_restart", "restart"),
    ("on_restart", "Resume"),
    ("on_restart", ""),
    ("priority", "urgent"),
    ("priority", "0"),
    ("priority", ""),
    ("tools", ["f"]),
    ("tools", [{"name": "f"}]),
    ("tools", [{"type": "web_search_preview"}]),
    ("tools", [{"type": "function", "function": {"name": "f"}}]),
    ("tools", [{"type": "function", "name": ""}]),
    ("tools", [{"type": "function", "name": "get weather"}]),
    ("tools", [{"type": "function", "name": "f" * 65}]),
    ("tools", [{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]),
    ("tools", [{"type": "function", "name": f"f{number}"} for number in range(129)]),
    ("tools", [{"type": "function", "name": "f", "description": "x" * 300_000}]),
    ("tools", [{"type": "function", "name": "f", "description": 1}]),
    ("tools", [{"type": "function", "name": "f", "strict": "yes"}]),
    ("tools", [{"type": "function", "name": "f", "parameters": []}]),
    ("tools", [{"type": "function", "name": "f", "parameters": {"type": "string"}}]),
    ("tools", [{"type": "function", "name": "f", "parameters": {"properties": {"a": {"type": "text"}}}}]),
    ("tools", [{"type": "function", "name": "f", "parameters": {"properties": {"a": {"not": {}}}}, "strict": True}]),
    ("text", {"format": {"type": "xml"}}),
    ("text", {"format": []}),
    ("text", {"format": "text"}),
    ("text", {"format": {}}),
    ("text", {"verbosity": "high"}),
    ("text", {"verbosity": "loud"}),
    ("top_logprobs", 21),
    ("top_logprobs", -1),
    ("truncation", "oldest"),
    ("previous_response_id", ""),
    ("previous_response_id", "x" * 65),
    ("include", ["usage"]),
    ("include", [5]),
    ("include", ["reasoning.encrypted_content"] * 17),
    ("reasoning", {"effort": "low"}),
    ("reasoning", {"effort": ["none"]}),
    ("reasoning", {"summary": "long"}),
    ("tool_choice", "required"),
    ("tool_choice", {"type": "function", "name": "f"}),
    ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": []}),
    ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}),
    ("tool_choice", {"type": "web_search_preview"}),
    ("tool_choice", "any"),
    ("max_tool_calls", 0),
    ("service_tier", "ultrafast"),
    ("safety_identifier", "x" * 129),
    ("prompt_cache_key", "x" * 65),
    ("conversation", "conv_1"),
    ("conversation", {"id": "conv_1"}),
    ("prompt", {"id": "pmpt_1"}),
    ("context_management", [{"type": "compaction", "compact_threshold": 1000}]),
    ("moderation", {"model": "omni-moderation-latest"}),
]


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize(("name", "value"), [*WRONG_TYPES, *WRONG_VALUES])
def test_a_field_that_cannot_be_meant_is_named_and_nothing_is_left(
    http: httpx.Client, path: str, name: str, value: Any
) -> None:
    answer = http.post(path, json=body() | {name: value}, headers={"Idempotency-Key": "invalid"})
    found = error(answer, 400)
    assert (found["type"], found["code"], found["param"]) == ("invalid_request_error", "invalid_value", name)
    assert found["message"].startswith(f"{name}: ")


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("name", ["model", "input"])
def test_what_a_request_cannot_be_without_is_named(http: httpx.Client, path: str, name: str) -> None:
    request = body()
    del request[name]
    assert error(http.post(path, json=request), 400)["param"] == name


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("kind", ["input_image", "input_file", "input_audio", "x" * 10_000])
def test_content_that_is_no_text_is_named_in_the_message(http: httpx.Client, path: str, kind: str) -> None:
    content = [{"type": "input_text", "text": "What is this?"}, {"type": kind, "image_url": "data:,"}]
    answer = http.post(path, json=body() | {"input": [{"role": "user", "content": content}]})
    found = error(answer, 400)
    assert found["param"] == "input"
    assert "text only" in found["message"]
    assert kind[:20] in found["message"]
    assert len(found["message"]) < 300


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("model", ["unknown", "smollm2-135m-instruct ", "../db.sqlite3", "🦙"])
def test_an_unknown_model_is_404(http: httpx.Client, path: str, model: str) -> None:
    found = error(http.post(path, json=body(model=model), headers={"Idempotency-Key": "unknown model"}), 404)
    assert (found["type"], found["code"], found["param"]) == ("not_found_error", "model_not_found", "model")
    assert model in found["message"]


@pytest.mark.parametrize(
    ("path", "fields", "name"),
    [
        ("/v1/tasks", {"stream": True}, "stream"),
        ("/v1/tasks", {"background": False}, "background"),
        ("/v1/tasks", {"store": False}, "store"),
        ("/v1/responses", {"background": True, "store": False}, "store"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(
    http: httpx.Client, path: str, fields: dict[str, Any], name: str
) -> None:
    assert error(http.post(path, json=body(**fields)), 400)["param"] == name


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("times", [1, 30])
def test_a_prompt_that_does_not_fit_is_told_how_much_it_needs(http: httpx.Client, path: str, times: int) -> None:
    answer = http.post(path, json=body(TOO_LONG * times), headers={"Idempotency-Key": "too long"})
    found = error(answer, 400)
    assert (found["code"], found["param"]) == ("context_length_exceeded", "input")
    prompt, needed, allowed = map(int, re.findall(r"\d+", found["message"].replace(MODEL, "")))
    assert needed == prompt + 1 > TOO_LONG.count("word") * times
    assert allowed == http.get(f"/v1/models/{MODEL}").json()["context_length"]


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tinside"])
def test_a_key_that_is_none_is_refused(http: httpx.Client, path: str, key: str) -> None:
    found = error(http.post(path, json=body(), headers={"Idempotency-Key": key}), 400)
    assert found["code"] == "invalid_idempotency_key"
