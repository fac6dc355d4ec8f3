"""What one engine generates, alone and in company, and when it stops."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from models_app.engines import llamacpp
from models_app.engines.base import GenerateRequest
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.messages import Tokens
from models_app.engines.sampling import SamplingParams
from tests.engines.driving import GREEDY, SAMPLED, Driver, chat_prompt
from tests.service import demo_model

QUESTIONS = (
    "Write a story about a king.",
    "Say hello.",
    "Write hello in Russian, Chinese and Arabic.",
    "List three colours.",
)


def _requests(tokenizer: Tokenizer, sampling: SamplingParams, max_tokens: int) -> list[GenerateRequest]:
    return [GenerateRequest(chat_prompt(tokenizer, q), sampling, max_tokens) for q in QUESTIONS]


def _greedy_by_hand(prompt: Sequence[int], count: int) -> list[int]:
    """The shortest correct greedy loop over llama.cpp, with nothing of ours in it but the model pointer."""
    lib: Any = llamacpp.library()
    model = llamacpp.load_model(demo_model())
    context = lib.llama_init_from_model(model, lib.llama_context_default_params())
    size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    tokens: list[int] = []
    feed = list(prompt)
    while len(tokens) < count:
        array = (lib.llama_token * len(feed))(*feed)
        assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(feed))) == 0
        logits = lib.llama_get_logits_ith(context, -1)[:size]
        feed = [max(range(size), key=logits.__getitem__)]
        tokens += feed
    lib.llama_free(context)
    lib.llama_model_free(model)
    return tokens


def test_greedy_equals_a_loop_written_by_hand(driver: Driver, tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(tokenizer, "Write a story about a king.")
    outcome = driver.run_alone(GenerateRequest(prompt, GREEDY, max_tokens=24))
    assert outcome.tokens == _greedy_by_hand(prompt, 24)
    assert outcome.finished.reason == "length"
    assert outcome.text == b"".join(map(tokenizer.piece, outcome.tokens)).decode()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_company_changes_nothing(driver: Driver, tokenizer: Tokenizer, sampling: SamplingParams) -> None:
    requests = _requests(tokenizer, sampling, max_tokens=20)
    together = driver.run(*requests, tokens_between=5)
    assert max(together[0].rows) >= 3, "they never ran side by side"
    for request, outcome in zip(requests, together, strict=True):
        alone = driver.run_alone(request)
        assert (outcome.tokens, outcome.text) == (alone.tokens, alone.text)


def test_the_first_token_has_no_row_count_and_later_ones_have_that_of_their_decode(
    driver: Driver, tokenizer: Tokenizer
) -> None:
    first, second = driver.run(*_requests(tokenizer, GREEDY, max_tokens=20)[:2], tokens_between=3)
    assert (first.slot, second.slot) == (0, 1)
    alone = first.rows.index(2)
    assert first.rows == [0, *[1] * (alone - 1), *[2] * (20 - alone)]
    assert alone >= 3
    assert second.rows == [0, *[2] * 19]


def test_half_a_character_at_the_end_is_replaced_and_never_sent_before(driver: Driver, tokenizer: Tokenizer) -> None:
    request = _requests(tokenizer, GREEDY, max_tokens=40)[2]
    # Which words are said is the processor's business; that some character takes two tokens is the vocabulary's.
    pieces = [tokenizer.piece(token) for token in driver.run_alone(request).tokens]
    texts = [b"".join(pieces[:count]).decode(errors="replace") for count in range(len(pieces))]
    within = max(count for count, text in enumerate(texts) if text.endswith("\N{REPLACEMENT CHARACTER}"))
    outcome = driver.run_alone(replace(request, max_tokens=within))
    assert outcome.text.endswith("\N{REPLACEMENT CHARACTER}")
    assert outcome.text == b"".join(map(tokenizer.piece, outcome.tokens)).decode(errors="replace")
    sent = [message.text for message in outcome.messages if isinstance(message, Tokens)]
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(sent)
