"""POST /v1/responses/compact and /v1/responses/input_tokens: conversations without a generation."""

from typing import Any

import httpx
import pytest

from tests.api.bodies import TOO_LONG, body, error, rows
from tests.api.conversations import CALL, OUTPUT, input_items, prompt, say, user
from tests.service import MODEL, Service

TURNS = [
    {"role": "system", "content": "Be brief."},
    user("My name is Ann."),
    {"role": "assistant", "content": "Hello Ann."},
    user("What is the sea?"),
    CALL,
    OUTPUT,
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Thinking"}]},
    {"role": "assistant", "content": "Water."},
]


def compacted(http: httpx.Client, said: Any = TURNS, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/responses/compact", json={"model": MODEL, "input": said, **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def counted(http: httpx.Client, said: Any = "Hi", **fields: Any) -> int:
    answer = http.post("/v1/responses/input_tokens", json={"model": MODEL, "input": said, **fields})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found.keys() == {"object", "input_tokens"}
    assert found["object"] == "response.input_tokens"
    tokens: int = found["input_tokens"]
    return tokens


def test_what_was_compacted_is_the_same_conversation(service: Service, http: httpx.Client) -> None:
    window = compacted(http)
    assert window["object"] == "response.compaction"
    *messages, sealed = window["output"]
    assert [message["content"][0]["text"] for message in messages] == ["My name is Ann.", "What is the sea?"]
    assert (sealed["type"], sealed["id"][:4]) == ("compaction", "cmp_")
    assert "Hello Ann." not in str(window)
    plain = say(http, [*TURNS, user("And now?")])
    kept = say(http, [*window["output"], user("And now?")])
    assert prompt(service, kept) == prompt(service, plain)
    shown = input_items(http, kept)
    assert [item["type"] for item in shown] == [item["type"] for item in input_items(http, plain)]
    # A client may send the messages on without what it has no use for, or the compaction alone.
    bare = [user(message["content"][0]["text"]) for message in messages]
    for sent in ([*bare, sealed], [sealed]):
        assert prompt(service, say(http, [*sent, user("And now?")])) == prompt(service, plain)


def test_a_compacted_conversation_is_compacted_again(service: Service, http: httpx.Client) -> None:
    once = compacted(http)
    twice = compacted(http, [*once["output"], user("And now?"), {"role": "assistant", "content": "Still."}])
    assert len(twice["output"]) == 4
    plain = say(http, [*TURNS, user("And now?"), {"role": "assistant", "content": "Still."}, user("So?")])
    assert prompt(service, say(http, [*twice["output"], user("So?")])) == prompt(service, plain)


def test_a_stored_conversation_is_compacted(service: Service, http: httpx.Client) -> None:
    first = say(http, "My name is Ann.")
    answer = http.post("/v1/responses/compact", json={"model": MODEL, "previous_response_id": first["id"]})
    on = say(http, [*answer.json()["output"], user("Who am I?")])
    assert prompt(service, on) == prompt(service, say(http, "Who am I?", previous_response_id=first["id"]))


def test_no_model_is_asked_and_nothing_is_stored(service: Service, http: httpx.Client) -> None:
    service.settle()
    before = rows(service)
    usage = compacted(http, instructions="Be loud.")["usage"]
    assert rows(service) == before
    assert usage["output_tokens"] == 0
    assert usage["input_tokens"] == usage["total_tokens"] == counted(http, TURNS, instructions="Be loud.")


@pytest.mark.parametrize(
    "spoil", [str.swapcase, lambda text: text[:-1], lambda text: f"A{text}", lambda _: "opaque", lambda _: "ключ"]
)
def test_an_altered_compaction_is_refused(http: httpx.Client, spoil: Any) -> None:
    *messages, sealed = compacted(http)["output"]
    altered = {**sealed, "encrypted_content": spoil(sealed["encrypted_content"])}
    for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
        found = error(http.post(path, json={"model": MODEL, "input": [*messages, altered]}), 400)
        assert (found["code"], found["param"]) == ("invalid_encrypted_content", "input")


def test_another_clients_compaction_is_refused(http: httpx.Client, stranger: httpx.Client) -> None:
    request = body() | {"input": compacted(http)["output"]}
    assert error(stranger.post("/v1/responses", json=request), 400)["code"] == "invalid_encrypted_content"


def test_tokens_are_counted_as_a_response_would_have_them(http: httpx.Client) -> None:
    first = say(http, TURNS, instructions="Be loud.")
    assert counted(http, TURNS, instructions="Be loud.") == first["usage"]["input_tokens"]
    second = say(http, "And now?", previous_response_id=first["id"])
    assert counted(http, "And now?", previous_response_id=first["id"]) == second["usage"]["input_tokens"]


def test_what_is_too_long_is_counted_all_the_same(http: httpx.Client) -> None:
    context = http.get(f"/v1/models/{MODEL}").json()["context_length"]
    assert counted(http, TOO_LONG) > context
    turns = [user(TOO_LONG), {"role": "assistant", "content": "Yes."}, user("Hi")]
    assert counted(http, turns, truncation="auto") == counted(http, "Hi")


@pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/responses/input_tokens"])
def test_what_a_creation_refuses_is_refused(http: httpx.Client, stranger: httpx.Client, path: str) -> None:
    foreign = say(stranger)["id"]
    for fields, status, name in [
        ({"input": "Hi"}, 400, "model"),
        ({"model": MODEL}, 400, "input"),
        ({"model": MODEL, "input": [{"type": "web_search_call"}]}, 400, "input"),
        ({"model": MODEL, "input": "Hi", "conversation": "conv_1"}, 400, "conversation"),
        ({"model": "unknown", "input": "Hi"}, 404, "model"),
        ({"model": MODEL, "previous_response_id": foreign}, 404, "previous_response_id"),
    ]:
        assert error(http.post(path, json=fields), status)["param"] == name
