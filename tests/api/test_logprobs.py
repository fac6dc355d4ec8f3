"""Log probabilities through both APIs, and the fields that change how an answer is drawn."""

import json
from typing import Any

import httpx
import pytest

from tests.api.bodies import CHAT, body, chat, error
from tests.conformance.open_responses import EVENTS, check_response

INCLUDE = ["message.output_text.logprobs"]


def _events(answer: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: {")]


def _part(response: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = response["output"][0]["content"][0]
    return part


def test_each_token_is_told_of_once_and_everywhere_the_same(http: httpx.Client) -> None:
    asked = body(include=INCLUDE, top_logprobs=2, stream=True, input="Write hello in Chinese.", max_output_tokens=12)
    events = _events(http.post("/v1/responses", json=asked))
    response = events[-1]["response"]
    said = _part(response)["logprobs"]
    assert len(said) == response["usage"]["output_tokens"] == 12
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [one for delta in deltas for one in delta["logprobs"]] == said
    assert b"".join(bytes(one["bytes"]) for one in said).decode(errors="replace") == _part(response)["text"]
    for one in said:
        first, second = one["top_logprobs"]
        assert first["logprob"] >= second["logprob"]
        assert (one["token"], one["logprob"]) == (first["token"], first["logprob"]), "greedy takes the likeliest"
    done = {event["type"]: event for event in events if event["type"].endswith("done")}
    assert done["response.output_text.done"]["logprobs"] == said
    assert done["response.content_part.done"]["part"]["logprobs"] == said
    assert done["response.output_item.done"]["item"]["content"][0]["logprobs"] == said
    assert response["top_logprobs"] == 2
    check_response(response)
    for event in [*deltas, done["response.output_text.done"]]:
        EVENTS[event["type"]].model_validate_json(json.dumps(event), strict=True)
    assert http.get(f"/v1/responses/{response['id']}").json() == response


def test_tokens_whose_text_is_held_back_are_told_of_when_they_come(http: httpx.Client) -> None:
    words = "one two three four five six seven eight nine ten"
    form = {"type": "json_schema", "name": "words", "schema": {"const": words}}
    # What may become a stop text is held back until it turns out not to be one.
    asked = body(include=INCLUDE, stop=words.removesuffix("ten") + "#", stream=True, max_output_tokens=40)
    events = _events(http.post("/v1/responses", json=asked | {"text": {"format": form}}))
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [delta["delta"] for delta in deltas if not delta["delta"]], "some of it was held back"
    told = b"".join(bytes(one["bytes"]) for delta in deltas for one in delta["logprobs"]).decode()
    assert told == "".join(delta["delta"] for delta in deltas) == json.dumps(words)


@pytest.mark.parametrize(
    ("fields", "top"),
    [({"include": INCLUDE}, 0), ({"top_logprobs": 1}, 1), ({"logprobs": True}, 0), ({}, None), ({"include": []}, None)],
)
def test_who_asks_is_told_and_nobody_else(http: httpx.Client, fields: dict[str, Any], top: int | None) -> None:
    said = _part(http.post("/v1/responses", json=body(**fields)).json())["logprobs"]
    assert [len(one["top_logprobs"]) for one in said] == ([] if top is None else [top] * 4)


def test_a_chat_completion_tells_them_streamed_too(http: httpx.Client) -> None:
    asked = chat("Write hello in Chinese.", logprobs=True, top_logprobs=3, max_tokens=8)
    choice = http.post(CHAT, json=asked).json()["choices"][0]
    said = choice["logprobs"]["content"]
    assert [len(one["top_logprobs"]) for one in said] == [3] * 8
    chunks = _events(http.post(CHAT, json=asked | {"stream": True}))
    told = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [one for each in told if each for one in each["content"]] == said
    assert http.post(CHAT, json=chat()).json()["choices"][0]["logprobs"] is None


def test_a_conversation_goes_on_without_them(http: httpx.Client) -> None:
    first = http.post("/v1/responses", json=body(include=INCLUDE)).json()
    second = http.post("/v1/responses", json=body("And?", previous_response_id=first["id"])).json()
    kept = http.get(f"/v1/responses/{second['id']}/input_items").json()["data"]
    [answer] = [item for item in kept if item["role"] == "assistant"]
    assert answer["content"][0] == _part(first) | {"logprobs": []}


def test_what_decides_the_draw_has_its_effect(http: httpx.Client) -> None:
    def text(**fields: Any) -> str:
        answer = http.post("/v1/responses", json=body("Tell me a story.", max_output_tokens=6, **fields)).json()
        said: str = _part(answer)["text"]
        return said

    likeliest = text()
    assert text(temperature=2, top_k=1) == likeliest
    assert text(temperature=2, min_p=1) == likeliest
    assert text(temperature=2, seed=3) != likeliest
    first = http.post("/v1/responses", json=body("Tell me a story.", logit_bias={"500": 100})).json()
    assert len(set(_part(first)["text"].split())) == 1, "always the same token"
    assert text(repetition_penalty=10, temperature=0) != text(logit_bias={"500": 100})


@pytest.mark.parametrize(
    "fields",
    [
        {"top_k": -1},
        {"top_k": 1.5},
        {"min_p": 1.1},
        {"repetition_penalty": 0},
        {"logit_bias": []},
        {"logit_bias": {"king": 1}},
        {"logit_bias": {"-1": 1}},
        {"logit_bias": {"1": 101}},
        {"logit_bias": {"1": "5"}},
        {"logit_bias": {"1": True}},
        {"logit_bias": {"49152": 1}},
        {"top_logprobs": 21, "logprobs": True},
    ],
    ids=json.dumps,
)
def test_values_out_of_range_are_refused(http: httpx.Client, fields: dict[str, Any]) -> None:
    for answer in (http.post("/v1/responses", json=body(**fields)), http.post(CHAT, json=chat(**fields))):
        found = error(answer, 400)
        assert found["param"] == next(iter(fields))
