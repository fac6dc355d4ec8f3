"""Outputs that follow a grammar, on the real model: always, in company, and from wherever they are resumed."""

import json
import os
import signal
import time
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from models_app.engines import grammar
from models_app.engines.base import EngineAddress, GenerateRequest
from models_app.engines.client import EngineDied, Generation
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.messages import Failed, Tokens
from models_app.engines.sampling import SamplingParams
from tests.engines.conftest import StartEngine
from tests.engines.driving import GREEDY, SAMPLED, Driver, Outcome, chat_prompt

# Bounded, so that a small model at a high temperature comes to an end, and has every kind of choice to make.
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["kind", "küçük"]}, "maxItems": 1},
        "home": {"anyOf": [{"type": "null"}, {"const": "東京"}]},
    },
    "required": ["name", "age", "tags", "home"],
    "additionalProperties": False,
}
_HOT = replace(SAMPLED, temperature=1.8, top_p=1, top_k=0, min_p=0)


def _person(tokenizer: Tokenizer, sampling: SamplingParams, **changes: Any) -> GenerateRequest:
    prompt = chat_prompt(tokenizer, "Describe a person.")
    return GenerateRequest(prompt, sampling, grammar=grammar.from_json_schema(PERSON), **changes)


def _assert_person(text: str) -> None:
    jsonschema.validate(json.loads(text), PERSON)


def test_whatever_the_seed_the_output_is_what_the_schema_describes(driver: Driver, tokenizer: Tokenizer) -> None:
    requests = [_person(tokenizer, GREEDY)]
    requests += [_person(tokenizer, replace(_HOT, seed=seed)) for seed in range(7)]
    outcomes = driver.run(*requests)
    for outcome in outcomes:
        assert outcome.finished.reason == "stop"
        assert tokenizer.is_end(outcome.tokens[-1])
        _assert_person(outcome.text)
    assert len({outcome.text for outcome in outcomes}) > 4, "seeds make a difference"


def test_without_the_grammar_the_same_request_says_something_else(driver: Driver, tokenizer: Tokenizer) -> None:
    free = driver.run_alone(replace(_person(tokenizer, GREEDY), grammar=None, max_tokens=8))
    assert not free.text.startswith("{")


@pytest.mark.parametrize("sampling", [GREEDY, _HOT], ids=["greedy", "sampled"])
def test_a_resume_continues_exactly_from_every_few_tokens(
    driver: Driver, tokenizer: Tokenizer, sampling: SamplingParams
) -> None:
    request = _person(tokenizer, sampling)
    whole = driver.run_alone(request)
    # All at once would wait for one slot; the last cut leaves nothing to do.
    for cut in [0, 1, *range(2, len(whole.tokens), 7), len(whole.tokens) - 1, len(whole.tokens)]:
        resumed = driver.resume(request, whole.resume(cut))
        assert whole.tokens[:cut] + resumed.tokens == whole.tokens
        assert whole.text_after(cut) + resumed.text == whole.text


def test_neighbours_neither_feel_the_grammar_nor_change_what_follows_it(driver: Driver, tokenizer: Tokenizer) -> None:
    free = GenerateRequest(chat_prompt(tokenizer, "Write a story about a king."), SAMPLED, max_tokens=30)
    requests = [_person(tokenizer, _HOT), free, _person(tokenizer, GREEDY)]
    together = driver.run(*requests, tokens_between=3)
    assert max(together[0].rows) == 3, "they never ran side by side"
    for request, outcome in zip(requests, together, strict=True):
        alone = driver.run_alone(request)
        assert (outcome.tokens, outcome.text) == (alone.tokens, alone.text)


def test_an_output_that_is_cut_is_the_beginning_of_one_that_is_valid(driver: Driver, tokenizer: Tokenizer) -> None:
    request = _person(tokenizer, _HOT)
    whole, cut = driver.run(request, replace(request, max_tokens=9))
    assert cut.finished.reason == "length"
    assert cut.tokens == whole.tokens[:9]


def test_penalties_and_bias_cannot_lead_out_of_the_grammar(driver: Driver, tokenizer: Tokenizer) -> None:
    quote = tokenizer.encode('"', add_special=False, parse_special=False)[0]
    sampling = replace(GREEDY, repeat_penalty=5.0, frequency_penalty=2.0, logit_bias=[(quote, -100.0), (300, 100.0)])
    outcome = driver.run_alone(_person(tokenizer, sampling))
    _assert_person(outcome.text)


def test_a_grammar_that_this_vocabulary_cannot_follow_fails_its_request_alone(
    driver: Driver, tokenizer: Tokenizer
) -> None:
    free = GenerateRequest(chat_prompt(tokenizer, "Say hello."), GREEDY, max_tokens=12)
    broken = replace(free, grammar=grammar.from_lark('start: <|no_such_token|> "x"'))
    neighbour, failed = driver.run(free, broken)
    assert isinstance(failed.messages[-1], Failed)
    assert failed.messages[-1].code == "grammar_error"
    assert "no_such_token" in failed.messages[-1].message
    assert neighbour.ended
    assert neighbour.text == driver.run_alone(free).text


def test_a_run_killed_in_the_middle_resumes_on_a_new_process_as_if_nothing_had_been(
    start_engine: StartEngine, tokenizer: Tokenizer
) -> None:
    first = start_engine(flush_interval=0)
    request = _person(tokenizer, _HOT, top_logprobs=1)
    whole = Outcome()
    _read(first, request, whole)
    killed = Outcome()
    with pytest.raises(EngineDied):
        _read(first, request, killed, kill_after=11)
    assert 11 <= len(killed.tokens) < len(whole.tokens)
    resumed = Outcome()
    _read(start_engine(), replace(request, resume=killed.resume(len(killed.tokens))), resumed)
    assert killed.tokens + resumed.tokens == whole.tokens
    assert killed.text + resumed.text == whole.text
    assert _said(killed) + _said(resumed) == _said(whole)
    _assert_person(whole.text)


def _said(outcome: Outcome) -> list[str]:
    """The tokens that log probabilities were told of, in their order."""
    return [said["token"] for message in outcome.messages for said in getattr(message, "logprobs", [])]


def _read(address: EngineAddress, request: GenerateRequest, outcome: Outcome, kill_after: int | None = None) -> None:
    deadline = time.monotonic() + 60
    with Generation(address, request) as generation:
        while generation.finished is None:
            assert time.monotonic() < deadline
            if (message := generation.next(1.0)) is not None:
                outcome.add(message)
                if isinstance(message, Tokens) and kill_after is not None and len(outcome.tokens) >= kill_after:
                    os.kill(address.pid, signal.SIGKILL)
