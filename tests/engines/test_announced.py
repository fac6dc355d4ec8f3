"""A prompt that is announced is begun before its request comes, and nobody can tell from what comes after it."""

from dataclasses import replace

import pytest

from models_app.engines import chunks
from models_app.engines.base import GenerateRequest
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.llamacpp_context import PREFILL_CHUNK
from models_app.engines.sampling import SamplingParams
from models_app.engines.scheduler import SlotScheduler
from tests.engines.driving import GREEDY, SAMPLED, CacheReader, Driver, chat_prompt

_TALE = "There was a tower by the sea, and nobody knew who had built it. "


@pytest.fixture(params=[0, 64 << 20], ids=["keeping nothing", "keeping beginnings"])
def early(model: CacheReader, request: pytest.FixtureRequest) -> Driver:
    """An engine that will be told of prompts."""
    return Driver(SlotScheduler(model, request.param))


def ask(tokenizer: Tokenizer, length: int, last: str = "Why?") -> GenerateRequest:
    end = chat_prompt(tokenizer, last)
    prompt = (tokenizer.encode(_TALE, add_special=False, parse_special=False) * 40)[: length - len(end)] + end
    return GenerateRequest(prompt, GREEDY, max_tokens=12)


def used(driver: Driver) -> int:
    return int(driver.engine.info()["announced_tokens_used"])


def announce(driver: Driver, request: GenerateRequest) -> None:
    driver.engine.prepare(request.prompt)
    assert not driver.engine.is_idle
    driver.finish()


@pytest.mark.parametrize(
    ("length", "sampling"),
    [(20, GREEDY), (PREFILL_CHUNK + 1, SAMPLED), (chunks.largest(PREFILL_CHUNK) + 1, GREEDY), (200, SAMPLED)],
)
def test_the_bits_are_those_of_a_prompt_that_nobody_announced(
    early: Driver, plain: Driver, model: CacheReader, tokenizer: Tokenizer, length: int, sampling: SamplingParams
) -> None:
    request = replace(ask(tokenizer, length), sampling=sampling)
    announce(early, request)
    seen = []
    for driver in (early, plain):
        model.watch([(0, length + 11)])
        outcome = driver.run_alone(request)
        seen.append((outcome.tokens, outcome.rows, model.digests))
    assert seen[0] == seen[1]
    assert seen[0][2]
    assert used(early) == chunks.end_of(0, length, PREFILL_CHUNK)


def test_it_begins_behind_what_is_kept(model: CacheReader, plain: Driver, tokenizer: Tokenizer) -> None:
    early = Driver(SlotScheduler(model, 64 << 20))
    kept, request = ask(tokenizer, 200), ask(tokenizer, 200, "Who?")
    early.run_alone(kept)
    announce(early, request)
    outcome = early.run_alone(request)
    assert outcome.tokens == plain.run_alone(request).tokens
    assert outcome.finished.timings["reused_tokens"] == 2 * PREFILL_CHUNK
    assert used(early) == len(request.prompt) - 2 * PREFILL_CHUNK


@pytest.mark.parametrize("length", [60, 200])
def test_another_request_finds_a_clean_slot(early: Driver, plain: Driver, tokenizer: Tokenizer, length: int) -> None:
    announced, other = ask(tokenizer, length), ask(tokenizer, length, "Who?")
    announce(early, announced)
    assert early.run_alone(other).tokens == plain.run_alone(other).tokens
    # What was begun is gone by now.
    assert early.run_alone(announced).tokens == plain.run_alone(announced).tokens
    assert used(early) == 0


def test_a_resume_of_the_same_prompt_begins_by_itself(early: Driver, plain: Driver, tokenizer: Tokenizer) -> None:
    request = ask(tokenizer, 90)
    whole = plain.run_alone(request)
    announce(early, request)
    assert early.resume(request, whole.resume(5)).tokens == whole.tokens[5:]
    assert used(early) == 0


def test_those_who_come_together_with_it_change_nothing(early: Driver, plain: Driver, tokenizer: Tokenizer) -> None:
    requests = [ask(tokenizer, 70, question) for question in ("One?", "Two?", "Three?")]
    announce(early, requests[0])
    together = early.run(*requests)
    assert [outcome.tokens for outcome in together] == [outcome.tokens for outcome in plain.run(*requests)]
    assert used(early) == 70


def test_a_cancel_takes_what_was_begun_with_it(early: Driver, plain: Driver, tokenizer: Tokenizer) -> None:
    request = ask(tokenizer, 200)
    announce(early, request)
    key, cancelled = early.submit(request)
    early.engine.cancel(key)
    early.finish()
    assert cancelled.finished.reason == "cancelled"
    assert early.run_alone(request).tokens == plain.run_alone(request).tokens


def test_nonsense_is_not_begun(early: Driver, tokenizer: Tokenizer) -> None:
    for prompt in ([], [10**6] * 100, [*ask(tokenizer, 200).prompt] * 10):
        early.engine.prepare(prompt)
        assert early.engine.is_idle


def test_what_has_come_or_was_never_asked_is_forgotten(early: Driver, tokenizer: Tokenizer) -> None:
    known, unknown = ask(tokenizer, 70), ask(tokenizer, 70, "Who?")
    early.engine.prepare(known.prompt)
    _key, outcome = early.submit(known)
    announce(early, unknown)
    announce(early, known)
    assert outcome.ended
    early.run_alone(known)
    assert used(early) == 70, "the last one that was begun, once"


def test_whoever_generates_is_not_held_up_by_what_may_come(early: Driver, tokenizer: Tokenizer) -> None:
    request, announced = ask(tokenizer, 70), ask(tokenizer, 70, "Who?")
    _key, generating = early.submit(request)
    while not generating.tokens:
        early.step()
    early.engine.prepare(announced.prompt)
    while not generating.ended:
        assert early.step()
    early.finish()
    early.run_alone(announced)
    assert used(early) == 70
