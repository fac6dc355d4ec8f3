"""What a chat completion cannot be asked for: the field is named as it was sent, and nothing is stored."""

from typing import Any

import httpx
import pytest

from tests.api.bodies import CHAT, TOO_LONG, chat, error

pytestmark = pytest.mark.usefixtures("nothing_stored")

HI: dict[str, Any] = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FUNCTION = {"name": "f", "parameters": {}}
MESSAGES: list[Any] = [
    None,
    "Hi",
    {},
    [],
    [[]],
    ["Hi"],
    [{}],
    [HI] * 4097,
    [{"role": "user"}],
    [{"content": "Hi"}],
    [{"role": "robot", "content": "Hi"}],
    [{"role": ["user"], "content": "Hi"}],
    [{"role": "function", "name": "f", "content": "Hi"}],
    [{**HI, "content": None}],
    [{**HI, "content": 5}],
    [{**HI, "content": ["Hi"]}],
    [{**HI, "content": [{"type": "text"}]}],
    [{**HI, "content": [{"type": "refusal", "refusal": "No."}]}],
    [{**HI, "name": "Ann"}],
    [{"role": "assistant"}],
    [{"role": "assistant", "content": None, "tool_calls": []}],
    [{"role": "assistant", "content": None, "tool_calls": {}}],
    [{"role": "assistant", "content": None, "tool_calls": CALL}],
    [{"role": "assistant", "content": None, "tool_calls": ["f"]}],
    [{"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": None}]}],
    [{"role": "assistant", "content": None, "tool_calls": [{**CALL, "type": "custom"}]}],
    [{"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}],
    [{"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}],
    [{"role": "assistant", "content": "Hi", "audio": {"id": "audio_1"}}],
    [{"role": "assistant", "content": "Hi", "refusal": 5}],
    [{"role": "assistant", "content": 5, "refusal": "No."}],
    [{"role": "tool", "content": "x"}],
    [{"role": "tool", "tool_call_id": "call_1"}],
    # An output of no call, which only the whole conversation tells.
    [{"role": "tool", "tool_call_id": "call_1", "content": "x"}],
    [{**HI, "content": TOO_LONG}],
]
WRONG: list[tuple[str, Any]] = [
    *[("messages", messages) for messages in MESSAGES],
    ("model", None),
    ("max_tokens", 0),
    ("max_tokens", 1.5),
    ("max_completion_tokens", "16"),
    ("max_completion_tokens", 2**31),
    ("temperature", 2.01),
    ("stop", ""),
    ("seed", -1),
    ("metadata", {"a": 1}),
    ("stream", 1),
    ("store", "yes"),
    ("stream_options", True),
    ("n", 2),
    ("n", True),
    ("n", 1.5),
    ("logprobs", 1),
    ("top_logprobs", 2),
    ("logit_bias", {"50256": -100}),
    ("tools", [{"type": "function", **FUNCTION}]),
    ("tools", [{"type": "custom", "custom": {"name": "f"}}]),
    ("tools", [{"type": "function", "function": {**FUNCTION, "parameters": {"type": 5}}}]),
    ("tool_choice", "required"),
    ("tool_choice", {"type": "function", "function": {"name": "f"}}),
    ("tool_choice", {"type": "function", "name": "f"}),
    ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": []}),
    ("functions", [FUNCTION]),
    ("function_call", {"name": "f"}),
    ("response_format", {"type": "xml"}),
    ("response_format", "text"),
    ("verbosity", "high"),
    ("reasoning_effort", "low"),
    ("reasoning_effort", 5),
    ("modalities", ["text", "audio"]),
    ("modalities", "text"),
    ("audio", {"voice": "alloy", "format": "mp3"}),
    ("web_search_options", {}),
    ("moderation", {"model": "omni-moderation-latest"}),
    ("service_tier", "scale"),
    ("safety_identifier", "x" * 129),
    ("on_restart", "restart"),
    ("priority", "urgent"),
    ("expires_at", 1_700_000_000),
    ("input", "Hi"),
    ("instructions", "Be brief."),
    ("previous_response_id", "resp_x"),
    ("max_output_tokens", 5),
    ("text", {}),
    ("reasoning", {}),
    ("truncation", "auto"),
    ("include", []),
    ("background", True),
    ("max_tool_calls", 1),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_field_that_cannot_be_meant_is_named(http: httpx.Client, name: str, value: Any) -> None:
    found = error(http.post(CHAT, json=chat() | {name: value}, headers={"Idempotency-Key": "invalid"}), 400)
    assert (found["type"], found["param"]) == ("invalid_request_error", name)
    assert found["message"].startswith(f"{name}: ")
    assert len(found["message"]) < 300


def test_an_option_is_named_with_its_field(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=chat(stream_options={"include_usage": 1}))
    assert error(answer, 400)["param"] == "stream_options.include_usage"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("input", "messages"),
        ("conversation", "as messages"),
        ("prompt", "as messages"),
        ("instructions", "a message of role system"),
        ("personality", "a message of role system"),
        ("max_output_tokens", "max_completion_tokens"),
    ],
)
def test_a_field_of_the_other_api_is_refused_with_what_is_here_instead(
    http: httpx.Client, name: str, instead: str
) -> None:
    assert instead in error(http.post(CHAT, json=chat() | {name: "x"}), 400)["message"]


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_content_that_is_no_text_is_named(http: httpx.Client, kind: str) -> None:
    messages: list[dict[str, Any]] = [
        HI,
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": kind, kind: {}}]},
    ]
    found = error(http.post(CHAT, json=chat(messages)), 400)
    assert found["param"] == "messages"
    assert "Message 1" in found["message"]
    assert kind in found["message"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"max_tokens": 4, "max_completion_tokens": 5}, "max_tokens"),
        ({"on_restart": "retry", "stream": True}, "on_restart"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(http: httpx.Client, fields: dict[str, Any], name: str) -> None:
    assert error(http.post(CHAT, json=chat(**fields)), 400)["param"] == name
