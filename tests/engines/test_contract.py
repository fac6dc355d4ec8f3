"""What every engine does, over each that this machine can run.

What an engine does besides, such as to continue bit for bit, has tests of its own.
"""

from dataclasses import replace

import pytest

from models_app.engines.base import GenerateRequest, RequestError, Resume
from models_app.engines.messages import Admitted, Finished, Progress, Tokens
from models_app.engines.sampling import SamplingParams
from tests.engines.driving import GREEDY, SAMPLED, Driver, Outcome, assert_continues
from tests.engines.subjects import Subject

STORY = "Write a story about a king."
HELLO = "Write hello in Russian, Chinese and Arabic."


@pytest.fixture
def driver(subject_driver: Driver) -> Driver:
    return subject_driver


def _request(subject: Subject, sampling: SamplingParams = GREEDY, max_tokens: int | None = 24) -> GenerateRequest:
    return GenerateRequest(subject.encode(STORY), sampling, max_tokens)


def test_a_request_is_admitted_read_generated_and_finished(subject: Subject, driver: Driver) -> None:
    outcome = driver.run_alone(_request(subject))
    kinds = [type(message) for message in outcome.messages if not isinstance(message, Progress)]
    assert kinds[0] is Admitted
    assert kinds[-1] is Finished
    assert set(kinds[1:-1]) == {Tokens}
    assert len(kinds) > 3, "it comes piece by piece"
    assert outcome.messages[0] == Admitted(outcome.slot, exact=True)
    assert (outcome.finished.reason, len(outcome.tokens), len(outcome.rows)) == ("length", 24, 24)
    assert outcome.text == subject.text(outcome.tokens)
    timings = outcome.finished.timings
    assert timings.keys() >= {"queued", "prefill", "decode"}
    assert (timings["prompt_tokens"], timings["output_tokens"]) == (len(subject.encode(STORY)), 24)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_the_same_request_has_the_same_answer(subject: Subject, driver: Driver, sampling: SamplingParams) -> None:
    first, second = (driver.run_alone(_request(subject, sampling)) for _ in range(2))
    assert (first.tokens, first.text) == (second.tokens, second.text)


def test_every_seed_draws_differently(subject: Subject, driver: Driver) -> None:
    drawn = [driver.run_alone(_request(subject, replace(SAMPLED, seed=seed))).tokens for seed in (1, 2, 3)]
    assert len({tuple(tokens) for tokens in drawn}) == 3


def test_penalties_keep_tokens_from_coming_again(subject: Subject, driver: Driver) -> None:
    prompt = subject.encode("Repeat for ever: la la la la la")
    free, penalized = (
        driver.run_alone(GenerateRequest(prompt, replace(GREEDY, presence_penalty=penalty), 24))
        for penalty in (0.0, 100.0)
    )
    assert len(set(penalized.tokens)) == len(penalized.tokens)
    # A random model may not repeat itself anyhow.
    assert len(set(free.tokens)) < len(free.tokens) or not subject.is_exact


def test_the_end_is_an_end_token_or_a_full_context(subject: Subject, driver: Driver) -> None:
    outcome = driver.run_alone(GenerateRequest(subject.encode("What is the capital of France?"), GREEDY))
    assert outcome.finished.timings["output_tokens"] == len(outcome.tokens)
    if subject.vocabulary.is_end(outcome.tokens[-1]):
        assert outcome.finished.reason == "stop"
        assert outcome.text == subject.text(outcome.tokens[:-1])
    else:
        assert outcome.finished.reason == "length"
        prompt = outcome.finished.timings["prompt_tokens"]
        assert prompt + len(outcome.tokens) == subject.engine.context_length


def test_a_stop_text_ends_the_output_before_itself(subject: Subject, driver: Driver) -> None:
    request = _request(subject, max_tokens=40)
    whole = driver.run_alone(request)
    middle = len(whole.text) // 3
    stop = whole.text[middle : middle + 8]
    stopped = driver.run_alone(replace(request, stop=(stop, "never said")))
    assert stopped.finished.reason == "stop"
    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.tokens == whole.tokens[: len(stopped.tokens)]
    assert len(stopped.tokens) < len(whole.tokens)


def test_a_full_context_ends_the_output(subject: Subject, driver: Driver) -> None:
    prompt = subject.encode("Count. " * 300)[: subject.engine.context_length - 3]
    outcome = driver.run_alone(GenerateRequest(prompt, SamplingParams(temperature=2.0, seed=5)))
    assert outcome.finished.reason == "length"
    assert len(outcome.tokens) == 3


def test_what_does_not_fit_is_refused(subject: Subject, driver: Driver) -> None:
    for prompt, code in (
        ([5] * subject.engine.context_length, "context_length_exceeded"),
        ([1, subject.vocabulary.size], "invalid_request"),
        ([1, -1], "invalid_request"),
    ):
        with pytest.raises(RequestError) as refusal:
            driver.submit(GenerateRequest(prompt, GREEDY))
        assert refusal.value.code == code
    assert subject.engine.is_idle


def test_many_at_once_are_all_served(subject: Subject, driver: Driver) -> None:
    lengths = [3 + number % 5 for number in range(2 * subject.engine.slots + 1)]
    outcomes = driver.run(*(_request(subject, max_tokens=length) for length in lengths))
    assert [len(outcome.tokens) for outcome in outcomes] == lengths
    assert all(outcome.text == subject.text(outcome.tokens) for outcome in outcomes)
    assert {outcome.slot for outcome in outcomes} == set(range(subject.engine.slots))


def test_a_cancel_ends_one_and_leaves_the_others_alone(subject: Subject, driver: Driver) -> None:
    undisturbed = driver.run_alone(_request(subject, max_tokens=16))
    key, cancelled = driver.submit(_request(subject, max_tokens=200))
    _key, other = driver.submit(_request(subject, max_tokens=16))
    while len(cancelled.tokens) < 4:
        driver.step()
    driver.engine.cancel(key)
    driver.step()
    assert cancelled.finished.reason == "cancelled"
    assert cancelled.finished.tokens == []
    driver.finish()
    assert len(other.tokens) == 16
    if subject.is_exact:
        assert other.tokens == undisturbed.tokens


def test_one_that_waits_for_a_slot_can_be_cancelled_and_an_unknown_key_is_ignored(
    subject: Subject, driver: Driver
) -> None:
    driver.engine.cancel(10**9)
    running = [driver.submit(_request(subject, max_tokens=4))[1] for _ in range(driver.engine.slots)]
    key, waiting = driver.submit(_request(subject, max_tokens=4))
    driver.step()
    driver.engine.cancel(key)
    driver.step()
    assert waiting.finished.reason == "cancelled"
    driver.finish()
    assert all(outcome.finished.reason == "length" for outcome in running)


def _resumed(subject: Subject, driver: Driver, request: GenerateRequest, outcome: Outcome, cut: int) -> None:
    """Resume after so many tokens, and compare: with what was, or where that cannot be, with what is promised."""
    resumed = driver.resume(request, outcome.resume(cut))
    assert resumed.messages[0] == Admitted(resumed.slot, exact=subject.is_exact or cut == 0)
    if subject.is_exact or not cut:
        assert_continues(outcome, resumed, cut)
        return
    assert subject.text(outcome.tokens[:cut]).startswith(resumed.replayed.text)
    if resumed.finished.reason == "length":
        assert request.max_tokens is None or cut + len(resumed.tokens) == request.max_tokens


@pytest.mark.parametrize("cut", [0, 1, 2, 13, 31])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_resume_continues(subject: Subject, driver: Driver, sampling: SamplingParams, cut: int) -> None:
    request = GenerateRequest(subject.encode(HELLO), sampling, max_tokens=32)
    _resumed(subject, driver, request, driver.run_alone(request), cut)


def test_a_resume_continues_from_every_cut_around_a_stop_text(subject: Subject, driver: Driver) -> None:
    request = _request(subject)
    text = driver.run_alone(request).text
    # The first stop text is held back for several tokens and turns out not to come; the second comes.
    half = len(text) // 2
    stopping = replace(request, stop=(text[half // 8 : half // 2] + "#", text[half : half + 12]))
    outcome = driver.run_alone(stopping)
    assert outcome.finished.reason == "stop"
    for cut in range(len(outcome.tokens)):
        _resumed(subject, driver, stopping, outcome, cut)


def test_a_journal_that_was_complete_finishes_without_computing(subject: Subject, driver: Driver) -> None:
    request = _request(subject)
    outcome = driver.run_alone(request)
    resumed = driver.submit(replace(request, resume=outcome.resume(24)))[1]
    driver.step()
    assert (resumed.finished.reason, resumed.tokens, resumed.text) == ("length", [], "")
    assert resumed.replayed.text == outcome.text
    assert driver.engine.is_idle


def test_a_journal_with_another_token_is_followed(subject: Subject, driver: Driver) -> None:
    request = _request(subject, max_tokens=32)
    outcome = driver.run_alone(request)
    altered = subject.plain(" queen")[-1]
    assert altered != outcome.tokens[7]
    tokens = [*outcome.tokens[:7], altered, *outcome.tokens[8:16]]
    resumed = driver.resume(request, Resume(outcome.slot, tokens, outcome.rows[:16]))
    assert resumed.tokens != outcome.tokens[16:]
    assert len(resumed.tokens) <= 16
