"""Outputs that follow a grammar, on the real model: in company, and exactly from wherever they are resumed.

What every engine does of it is in `test_contract_choice.py`.
"""

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
from models_app.engines.messages import Tokens
from models_app.engines.sampling import SamplingParams
from tests.engines.conftest import StartEngine
from tests.engines.driving import GREEDY, HOT, PERSON, SAMPLED, Driver, Outcome, chat_prompt


def _person(tokenizer: Tokenizer, sampling: SamplingParams, **changes: Any) -> GenerateRequest:
    prompt = chat_prompt(tokenizer, "Describe a person.")
    return GenerateRequest(prompt, sampling, grammar=grammar.from_json_schema(PERSON), **changes)


def _assert_person(text: str) -> None:
    jsonschema.validate(json.loads(text), PERSON)


def test_without_the_grammar_the_same_request_says_something_else(driver: Driver, tokenizer: Tokenizer) -> None:
    free = driver.run_alone(replace(_person(tokenizer, GREEDY), grammar=None, max_tokens=8))
    assert not free.text.startswith("{")


@pytest.mark.parametrize("sampling", [GREEDY, HOT], ids=["greedy", "sampled"])
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
    requests = [_person(tokenizer, HOT), free, _person(tokenizer, GREEDY)]
    together = driver.run(*requests, tokens_between=3)
    assert max(together[0].rows) == 3, "they never ran side by side"
    for request, outcome in zip(requests, together, strict=True):
        alone = driver.run_alone(request)
        assert (outcome.tokens, outcome.text) == (alone.tokens, alone.text)


def test_a_run_killed_in_the_middle_resumes_on_a_new_process_as_if_nothing_had_been(
    start_engine: StartEngine, tokenizer: Tokenizer
) -> None:
    first = start_engine(flush_interval=0)
    request = _person(tokenizer, HOT, top_logprobs=1)
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
