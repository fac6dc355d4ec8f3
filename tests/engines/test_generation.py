"""What one engine generates, alone and in company, and when it stops."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from models_app.engines import llamacpp
from models_app.engines.base import GenerateRequest, RequestError
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


def test_every_seed_draws_differently_and_the_same_seed_the_same(driver: Driver, tokenizer: Tokenizer) -> None:
    request = _requests(tokenizer, SAMPLED, max_tokens=16)[0]
    seeds = [1, 2, 3, 1]
    outcomes = [driver.run_alone(replace(request, sampling=replace(SAMPLED, seed=seed))).tokens for seed in seeds]
    assert len({tuple(tokens) for tokens in outcomes}) == 3
    assert outcomes[0] == outcomes[3]


def test_penalties_keep_tokens_from_coming_again(driver: Driver, tokenizer: Tokenizer) -> None:
    request = GenerateRequest(chat_prompt(tokenizer, "Repeat for ever: la la la la la"), GREEDY, max_tokens=24)
    strict = replace(GREEDY, presence_penalty=100.0)
    free, penalized = driver.run(request, replace(request, sampling=strict))
    assert len(set(free.tokens)) < len(free.tokens)
    assert len(set(penalized.tokens)) == len(penalized.tokens)


def test_an_end_token_stops_and_is_counted(driver: Driver, tokenizer: Tokenizer) -> None:
    outcome = driver.run_alone(GenerateRequest(chat_prompt(tokenizer, "What is the capital of France?"), GREEDY))
    assert outcome.finished.reason == "stop"
    assert tokenizer.is_end(outcome.tokens[-1])
    assert outcome.finished.timings["output_tokens"] == len(outcome.tokens)
    assert outcome.text == b"".join(map(tokenizer.piece, outcome.tokens[:-1])).decode()


def test_a_stop_text_ends_the_output_before_itself(driver: Driver, tokenizer: Tokenizer) -> None:
    request = _requests(tokenizer, GREEDY, max_tokens=40)[0]
    whole = driver.run_alone(request)
    stop = whole.text[30:38]
    stopped = driver.run_alone(replace(request, stop=(stop, "never said")))
    assert stopped.finished.reason == "stop"
    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.tokens == whole.tokens[: len(stopped.tokens)]
    assert len(stopped.tokens) < len(whole.tokens)


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


def test_a_full_context_ends_the_output(driver: Driver, tokenizer: Tokenizer) -> None:
    room = driver.engine.context_length
    prompt = (chat_prompt(tokenizer, "Count. " * 300))[: room - 3]
    outcome = driver.run_alone(GenerateRequest(prompt, replace(GREEDY, temperature=2.0, seed=5)))
    assert outcome.finished.reason == "length"
    assert len(outcome.tokens) == 3


@pytest.mark.parametrize(
    ("prompt_length", "token", "code"),
    [(512, 5, "context_length_exceeded"), (3, 49152, "invalid_request"), (3, -1, "invalid_request")],
)
def test_what_cannot_be_run_is_refused(driver: Driver, prompt_length: int, token: int, code: str) -> None:
    with pytest.raises(RequestError) as refusal:
        driver.submit(GenerateRequest([token] * prompt_length, GREEDY))
    assert refusal.value.code == code
    assert driver.engine.is_idle
