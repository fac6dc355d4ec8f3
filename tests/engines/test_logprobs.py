"""What an engine says of how likely its tokens were, beside a computation that shares nothing with it.

What every engine says is in `test_contract_choice.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models_app.engines import grammar, llamacpp
from models_app.engines.base import GenerateRequest, RequestError
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.logprobs import MOST
from tests.engines.driving import GREEDY, SAMPLED, Driver, Outcome, chat_prompt
from tests.service import demo_model

# Two ways through the same kernels differ by a few hundredths; a temperature of 1.5 would make whole units of it.
_TOLERANCE = 0.08


def _log_softmax_by_hand(prompt: Sequence[int], tokens: Sequence[int]) -> list[Any]:
    """The log probabilities of all tokens at each position of an output, by llama.cpp and numpy alone."""
    lib: Any = llamacpp.library()
    model = llamacpp.load_model(demo_model())
    context = lib.llama_init_from_model(model, lib.llama_context_default_params())
    size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    found = []
    feed = list(prompt)
    for token in tokens:
        array = (lib.llama_token * len(feed))(*feed)
        assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(feed))) == 0
        logits = np.array(lib.llama_get_logits_ith(context, -1)[:size])
        found.append(logits - np.logaddexp.reduce(logits))
        feed = [token]
    lib.llama_free(context)
    lib.llama_model_free(model)
    return found


def _said(outcome: Outcome) -> list[dict[str, Any]]:
    return [said for message in outcome.messages for said in getattr(message, "logprobs", [])]


def test_they_are_the_models_own_however_its_answer_was_drawn(driver: Driver, tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(tokenizer, "Write a story about a king.")
    sampling = replace(SAMPLED, temperature=1.5, logit_bias=[(500, 3.0)], repeat_penalty=1.3)
    outcome = driver.run_alone(GenerateRequest(prompt, sampling, max_tokens=12, top_logprobs=5))
    said = _said(outcome)
    assert len(said) == 12
    for token, logprobs, one in zip(outcome.tokens, _log_softmax_by_hand(prompt, outcome.tokens), said, strict=True):
        assert one["logprob"] == pytest.approx(logprobs[token], abs=_TOLERANCE)
        assert bytes(one["bytes"]) == tokenizer.piece(token)
        top = one["top_logprobs"]
        assert [entry["logprob"] for entry in top] == pytest.approx(
            np.sort(logprobs)[::-1][:5].tolist(), abs=_TOLERANCE
        )
        assert [entry["logprob"] for entry in top] == sorted((entry["logprob"] for entry in top), reverse=True)
        assert sum(np.exp(entry["logprob"]) for entry in top) <= 1


def test_a_grammar_changes_what_is_chosen_and_not_how_likely_it_was(driver: Driver, tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(tokenizer, "Write a story about a king.")
    follow = grammar.from_json_schema({"enum": ["zebra"]})
    outcome = driver.run_alone(GenerateRequest(prompt, GREEDY, grammar=follow, top_logprobs=1))
    first, likeliest = _said(outcome)[0], _said(outcome)[0]["top_logprobs"][0]
    assert first["logprob"] < likeliest["logprob"] - 1
    assert first["token"] != likeliest["token"]


@pytest.mark.parametrize("top", [-1, MOST + 1])
def test_no_more_can_be_asked_for_than_there_is_room_for(top: int) -> None:
    with pytest.raises(RequestError, match="top_logprobs"):
        GenerateRequest([1], top_logprobs=top)
