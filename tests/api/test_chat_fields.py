"""Fields of a chat completion that ask for nothing special: they are taken, and change nothing."""

import httpx

from tests.api.bodies import CHAT, chat

HARMLESS = {
    "max_completion_tokens": 4,
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "tools": [],
    "tool_choice": "none",
    "functions": [],
    "function_call": "auto",
    "parallel_tool_calls": True,
    "response_format": {"type": "text"},
    "verbosity": "medium",
    "reasoning_effort": "none",
    "modalities": ["text"],
    "service_tier": "auto",
    "stream_options": {"include_usage": True, "include_obfuscation": True},
    "prediction": {"type": "content", "content": "Hello"},
    "user": "ann",
    "safety_identifier": "ann",
    "prompt_cache_key": "sea",
    "prompt_cache_retention": "24h",
    "never heard of": {"a": 1},
}
# What every field but model and messages may be as well: not sent.
NULL = dict.fromkeys(
    [*HARMLESS, "audio", "web_search_options", "moderation", "input", "text", "stop", "seed", "stream"]
)


def test_what_asks_for_nothing_special_changes_nothing(http: httpx.Client) -> None:
    plain, harmless, null = (http.post(CHAT, json=chat() | more) for more in ({}, HARMLESS, NULL))
    for answer in (harmless, null):
        assert answer.status_code == 200, answer.text
        assert answer.json().keys() == plain.json().keys()
        for name in ("choices", "usage", "service_tier"):
            assert answer.json()[name] == plain.json()[name]


def test_they_are_echoed_by_the_response(http: httpx.Client) -> None:
    completion = http.post(CHAT, json=chat() | HARMLESS).json()
    response = http.get(f"/v1/responses/{completion['id'].replace('chatcmpl-', 'resp_')}").json()
    echoed = {
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "reasoning": {"effort": "none", "summary": None},
        "max_output_tokens": 4,
        "safety_identifier": "ann",
        "prompt_cache_key": "sea",
        "tool_choice": "none",
    }
    assert response | echoed == response
