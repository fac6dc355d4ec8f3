"""Fields of the official API that change little or nothing: each is echoed, has its effect, or is refused by name.

What is refused stands in ``test_invalid_fields``.
"""

from typing import Any

import httpx
import pytest

from tests.api.bodies import body
from tests.api.conversations import prompt, say
from tests.service import Service


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({"tool_choice": "none"}, {}),
        ({"tool_choice": "auto", "parallel_tool_calls": False, "max_tool_calls": 3}, {}),
        ({"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "none", "summary": None}}),
        ({"reasoning": {"summary": "auto"}}, {"reasoning": {"effort": None, "summary": "auto"}}),
        ({"text": {"verbosity": "medium"}}, {"text": {"format": {"type": "text"}, "verbosity": "medium"}}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"service_tier": "auto"}, {"service_tier": "default"}),
        ({"service_tier": "flex"}, {}),
        ({"safety_identifier": "ann", "prompt_cache_key": "sea"}, {}),
        ({"truncation": "auto"}, {}),
        ({"top_logprobs": 0, "logprobs": False}, {"top_logprobs": 0, "logprobs": ...}),
    ],
)
def test_what_was_sent_is_echoed(http: httpx.Client, sent: dict[str, Any], shown: dict[str, Any]) -> None:
    response = say(http, **sent)
    for name, value in (sent | shown).items():
        assert response.get(name, ...) == value
    assert http.get(f"/v1/responses/{response['id']}").json() == response


def test_what_is_left_out_is_shown_as_it_is_meant(http: httpx.Client) -> None:
    response = say(http, service_tier=None, tool_choice=None, reasoning=None, text=None, truncation=None)
    meant = {
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "max_tool_calls": None,
        "reasoning": None,
        "text": {"format": {"type": "text"}},
        "service_tier": "default",
        "safety_identifier": None,
        "prompt_cache_key": None,
        "truncation": "disabled",
        "previous_response_id": None,
    }
    assert response | meant == response


def test_fields_without_an_effect_change_nothing(service: Service, http: httpx.Client) -> None:
    without_effect = {
        "include": ["reasoning.encrypted_content", "message.input_image.image_url"],
        "user": "ann",
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "implicit"},
        "stream_options": {"include_obfuscation": False},
        "image": {"context_compression": "auto"},
        "never heard of": {"a": 1},
    }
    plain, other = say(http, max_output_tokens=4), say(http, max_output_tokens=4, **without_effect)
    assert prompt(service, plain) == prompt(service, other)
    assert plain["output"][0]["content"] == other["output"][0]["content"]
    assert plain.keys() == other.keys()


@pytest.mark.parametrize(
    ("fields", "priority"),
    [
        ({"service_tier": "flex"}, "batch"),
        ({"service_tier": "priority"}, "interactive"),
        ({"service_tier": "fast"}, "interactive"),
        ({"service_tier": "default"}, "normal"),
        ({"service_tier": "flex", "priority": "interactive"}, "interactive"),
    ],
)
def test_a_tier_is_a_place_in_the_queue_unless_one_is_named(
    http: httpx.Client, fields: dict[str, Any], priority: str
) -> None:
    assert http.post("/v1/tasks", json=body(**fields)).json()["priority"] == priority


def test_seed_and_stop_have_their_effect(http: httpx.Client) -> None:
    long = {"max_output_tokens": 24, "temperature": 1.5}
    one, same, other = (say(http, "Tell me a story.", seed=seed, **long) for seed in (1, 1, 2))
    assert one["output"][0]["content"] == same["output"][0]["content"] != other["output"][0]["content"]
    text = one["output"][0]["content"][0]["text"]
    end = text[5:9]
    stopped = say(http, "Tell me a story.", seed=1, stop=end, **long)
    assert stopped["output"][0]["content"][0]["text"] == text[: text.index(end)]
    assert stopped["status"] == "completed"
