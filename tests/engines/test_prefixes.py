"""What prompts begin with is read once, and nobody can tell from what comes after it."""

from dataclasses import replace

import pytest

from models_app.engines import chunks
from models_app.engines.base import GenerateRequest
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.llamacpp_context import PREFILL_CHUNK
from models_app.engines.sampling import SamplingParams
from models_app.engines.scheduler import SlotScheduler
from tests.engines.driving import GREEDY, SAMPLED, CacheReader, Driver

SYSTEM = "You are a guide to an old city. " + "You know its towers, its river and its people. " * 16


@pytest.fixture
def keeping(model: CacheReader) -> Driver:
    """An engine that keeps beginnings, with none kept yet."""
    return Driver(SlotScheduler(model, 64 << 20))


def ask(tokenizer: Tokenizer, question: str, said: str = "") -> GenerateRequest:
    text = (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n{said}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )
    prompt = tokenizer.encode(text, add_special=True, parse_special=True)
    assert len(prompt) > 2 * PREFILL_CHUNK
    return GenerateRequest(prompt, GREEDY, max_tokens=12)


def reused(driver: Driver) -> int:
    return int(driver.engine.info()["prefix_tokens_reused"])


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_the_bits_are_those_of_a_prompt_that_was_read_whole(
    keeping: Driver, plain: Driver, model: CacheReader, tokenizer: Tokenizer, sampling: SamplingParams
) -> None:
    requests = [
        # So long that the last border of each is its own.
        replace(ask(tokenizer, question * 12), sampling=sampling)
        for question in ("Which tower is the oldest? ", "Who built the bridge? ", "Where does the river end? ")
    ]
    ends = {len(request.prompt) + 11 for request in requests}
    seen = []
    for driver in (keeping, plain):
        model.watch((0, end) for end in ends)
        outcomes = [driver.run_alone(request) for request in requests]
        seen.append(([outcome.tokens for outcome in outcomes], model.digests))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == len(ends)
    # The first one knew nothing, the second one saw what they have in common, and the third one had it.
    shared = min(
        next(at for at, (one, two) in enumerate(zip(requests[0].prompt, other.prompt)) if one != two)  # noqa: B905
        for other in requests[1:]
    )
    assert reused(keeping) == shared // PREFILL_CHUNK * PREFILL_CHUNK > 0
    assert reused(plain) == 0


def test_the_next_turn_reads_on_where_the_last_prompt_ended(keeping: Driver, tokenizer: Tokenizer) -> None:
    first = ask(tokenizer, "Which tower is the oldest?")
    answer = keeping.run_alone(first).text
    said = f"<|im_start|>user\nWhich tower is the oldest?<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
    outcome = keeping.run_alone(ask(tokenizer, "And the second?", said))
    *_, border = chunks.borders(len(first.prompt), PREFILL_CHUNK)
    assert reused(keeping) == border
    assert outcome.finished.timings["reused_tokens"] == border


def test_a_resume_that_begins_with_what_is_kept_goes_on_exactly(
    keeping: Driver, plain: Driver, tokenizer: Tokenizer
) -> None:
    request = ask(tokenizer, "Which tower is the oldest?")
    whole = plain.run_alone(request)
    keeping.run_alone(request)
    resumed = keeping.resume(request, whole.resume(5))
    assert reused(keeping) > 0
    assert resumed.tokens == whole.tokens[5:]


def test_slots_side_by_side_begin_with_the_same(keeping: Driver, plain: Driver, tokenizer: Tokenizer) -> None:
    requests = [ask(tokenizer, question) for question in ("One?", "Two?", "Three?", "Four?")]
    keeping.run_alone(requests[0])
    keeping.run_alone(requests[1])
    before = reused(keeping)
    together = keeping.run(*requests)
    assert reused(keeping) > before
    assert [outcome.tokens for outcome in together] == [outcome.tokens for outcome in plain.run(*requests)]
