"""``truncation``: what is left out of a conversation that does not fit, and what never is."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.bodies import body, error
from tests.api.conversations import CALL, OUTPUT, input_items, prompt, say, user
from tests.service import MODEL, Service

# Tokens: so that little fills it.
CONTEXT = 320
# Three of them do not fit into it, two leave a quarter of it.
LONG = "word " * 95
TOO_LONG = "word " * 400


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose models have little room."""
    with Service(tmp_path_factory.mktemp("narrow"), LMSP_CONTEXT_LENGTH=str(CONTEXT)) as running:
        yield running


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "Be brief."}
TURNS = [SYSTEM, user(f"1 {LONG}"), assistant("One."), user(f"2 {LONG}"), assistant("Two."), user(f"3 {LONG}")]


def test_the_oldest_turn_goes_and_the_rest_stays(service: Service, http: httpx.Client) -> None:
    response = say(http, TURNS, truncation="auto", instructions="Count.")
    rest = [SYSTEM, *TURNS[3:]]
    assert response["truncation"] == "auto"
    assert response["lmsp"]["dropped_items"] == 2
    assert prompt(service, response) == prompt(service, say(http, rest, instructions="Count."))
    assert len(input_items(http, response)) == len(rest)


def test_what_fits_is_left_whole(service: Service, http: httpx.Client) -> None:
    turns = [user("Hi"), assistant("Hello."), user("Hi again")]
    response = say(http, turns, truncation="auto")
    assert response["lmsp"]["dropped_items"] == 0
    assert prompt(service, response) == prompt(service, say(http, turns))


def test_an_endless_conversation_goes_on(http: httpx.Client) -> None:
    last = say(http, TURNS[1:], truncation="auto")
    for number in (4, 5):
        last = say(http, f"{number} {LONG}", previous_response_id=last["id"], truncation="auto")
        assert last["lmsp"]["dropped_items"] == 2
        assert len(input_items(http, last)) == 3


def test_the_room_that_was_asked_for_is_left(http: httpx.Client) -> None:
    # Each is less than the room that makes the difference.
    turns = [user("word " * 40)] * 12
    brim, roomy, quarter = (
        http.post(
            "/v1/responses/input_tokens", json={"model": MODEL, "input": turns, "truncation": "auto", **room}
        ).json()
        for room in ({"max_output_tokens": 1}, {"max_output_tokens": 70}, {})
    )
    assert CONTEXT * 3 // 4 < brim["input_tokens"] < CONTEXT
    assert quarter["input_tokens"] <= roomy["input_tokens"] <= CONTEXT - 70


@pytest.mark.parametrize("truncation", [None, "disabled"])
def test_nothing_is_cut_unasked(http: httpx.Client, truncation: str | None) -> None:
    answer = http.post("/v1/responses", json=body(truncation=truncation) | {"input": [user(TOO_LONG), user("Hi")]})
    assert error(answer, 400)["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "kept",
    [
        [user("Hi"), user(TOO_LONG)],
        [{"role": "system", "content": TOO_LONG}, user("Hi")],
        [{"role": "developer", "content": TOO_LONG}, user("Hi")],
        [user("Hi"), assistant(TOO_LONG)],
    ],
)
def test_what_must_not_be_left_out_is_not(http: httpx.Client, kept: list[dict[str, Any]]) -> None:
    answer = http.post("/v1/responses", json=body(truncation="auto") | {"input": kept})
    assert error(answer, 400)["code"] == "context_length_exceeded"


def test_a_call_goes_with_its_output_and_the_newest_stays(service: Service, http: httpx.Client) -> None:
    old = [{**CALL, "call_id": "call_0"}, {**OUTPUT, "call_id": "call_0", "output": TOO_LONG}]
    asked = user("What is the sea?")
    response = say(http, [user("Hi"), assistant("Hello."), asked, *old, CALL, OUTPUT], truncation="auto")
    assert prompt(service, response) == prompt(service, say(http, [asked, CALL, OUTPUT]))
    assert response["lmsp"]["dropped_items"] == 4
