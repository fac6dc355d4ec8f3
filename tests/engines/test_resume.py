"""An interrupted generation goes on exactly where it was: same tokens, same text, nothing sent twice."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from models_app.engines.base import GenerateRequest, ModelSpec, RequestError, Resume
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.llamacpp_context import SlotContext
from models_app.engines.messages import Admitted, Progress
from models_app.engines.scheduler import SlotScheduler
from tests.engines.driving import (
    GREEDY,
    SAMPLED,
    CacheReader,
    Driver,
    assert_continues,
    chat_prompt,
    company_changes_bits,
    quantise,
)
from tests.service import demo_model

STORY = "Write a story about a king."
HELLO = "Write hello in Russian, Chinese and Arabic."


def test_sequences_that_ran_together_resume_together_and_each_alone(driver: Driver, tokenizer: Tokenizer) -> None:
    questions = (STORY, HELLO, "Say hello.", "Describe the sea.")
    requests = [GenerateRequest(chat_prompt(tokenizer, q), SAMPLED, max_tokens=20) for q in questions]
    outcomes = driver.run(*requests, tokens_between=5)
    cuts = [min(cut, len(outcome.tokens)) for cut, outcome in zip((16, 11, 7, 3), outcomes, strict=True)]
    resumes = [
        replace(request, resume=outcome.resume(cut))
        for request, outcome, cut in zip(requests, outcomes, cuts, strict=True)
    ]
    together = driver.run(*reversed(resumes))[::-1]
    alone = [driver.run_alone(resume) for resume in resumes]
    for outcome, cut, *resumed in zip(outcomes, cuts, together, alone, strict=True):
        for continued in resumed:
            assert_continues(outcome, continued, cut)


class _Recorder(SlotContext):
    """The real model, which also notes the shape of each decode."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, lambda _progress: None)
        self.decodes: list[tuple[int, tuple[bool, ...], bool]] = []

    def decode(self, rows: Sequence[int | None], *, logits: bool) -> None:
        super().decode(rows, logits=logits)
        self.decodes.append((len(rows), tuple(token is not None for token in rows), logits))


def test_each_journalled_token_is_fed_in_a_decode_of_its_row_count(spec: ModelSpec, tokenizer: Tokenizer) -> None:
    model = _Recorder(replace(spec, context_length=256))
    driver = Driver(SlotScheduler(model))
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=9)
    resume = Resume(1, (504, 1977, 282, 3261, 330), (0, 2, 3, 4, 2))
    driver.resume(request, resume)
    replayed = [(2, (False, True), False), (3, (False, True, False), False), (4, (False, True, False, False), False)]
    live = [(2, (False, True), True)] * 4
    assert model.decodes == [*replayed, replayed[0], *live]
    assert model.lengths == [0, 0, 0, 0]
    driver.engine.close()


def test_those_who_generate_go_on_while_another_replays(driver: Driver, tokenizer: Tokenizer) -> None:
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=40)
    outcome = driver.run_alone(request)
    resume = replace(request, resume=Resume(2, outcome.tokens[:30], [0, *[3] * 29]))
    _key, beside = driver.submit(request)
    _key, resumed = driver.submit(resume)
    seen = 0
    while not any(isinstance(message, Progress) and message.phase == "replay" for message in resumed.messages):
        driver.step()
    seen = len(beside.tokens)
    while not resumed.tokens:
        driver.step()
    assert len(beside.tokens) - seen >= 15
    driver.finish()
    assert outcome.tokens[:30] + resumed.tokens == outcome.tokens
    assert beside.tokens == outcome.tokens


def test_a_resume_waits_for_its_slot_and_nobody_is_put_there(driver: Driver, tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(tokenizer, STORY)
    _key, running = driver.submit(GenerateRequest(prompt, GREEDY, max_tokens=12))
    driver.step()
    assert running.slot == 0
    _key, resumed = driver.submit(GenerateRequest(prompt, GREEDY, 12, resume=Resume(0, (504, 1977), (0, 1))))
    _key, fresh = driver.submit(GenerateRequest(prompt, GREEDY, max_tokens=2))
    while not running.ended:
        driver.step()
    assert not resumed.messages
    assert fresh.slot == 1
    _key, late = driver.submit(GenerateRequest(prompt, GREEDY, max_tokens=2))
    driver.finish()
    assert (resumed.slot, late.slot) == (0, 1)


def test_a_slot_is_kept_for_a_resume_that_came_later(driver: Driver, tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(tokenizer, STORY)
    _key, fresh = driver.submit(GenerateRequest(prompt, GREEDY, max_tokens=2))
    _key, resumed = driver.submit(GenerateRequest(prompt, GREEDY, 12, resume=Resume(0, (504, 1977), (0, 1))))
    driver.finish()
    assert (fresh.slot, resumed.slot) == (1, 0)


@pytest.mark.parametrize(("slot", "rows"), [(7, (0, 8, 8)), (2, (0, 9, 3)), (2, (0, 1, 3))])
def test_a_journal_of_another_number_of_slots_resumes_as_well_as_it_can(
    driver: Driver, tokenizer: Tokenizer, slot: int, rows: tuple[int, ...]
) -> None:
    prompt = chat_prompt(tokenizer, STORY)
    resumed = driver.resume(GenerateRequest(prompt, GREEDY, 8), Resume(slot, (504, 1977, 282), rows))
    assert resumed.messages[0] == Admitted(0, exact=False)
    assert len(resumed.tokens) == 5


def test_a_journal_without_a_row_count_for_each_token_is_refused() -> None:
    with pytest.raises(RequestError, match="rows"):
        Resume(0, (1, 2, 3), (0, 1))


@pytest.fixture(scope="module")
def half_precision_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model in 16 bits: one row and several take different kernels there, which give other bits."""
    path = tmp_path_factory.mktemp("model") / "f16.gguf"
    quantise(demo_model(), path, "F16")
    return path


def test_the_cache_is_rebuilt_bit_for_bit_where_the_row_count_decides_the_bits(
    spec: ModelSpec, tokenizer: Tokenizer, half_precision_model: Path
) -> None:
    prompt = chat_prompt(tokenizer, STORY)
    # Of 15 journalled tokens 14 have a known successor; the last one is fed freely, whatever runs beside it.
    watched = [(slot, len(prompt) + fed) for slot in (0, 1) for fed in range(1, 15)]
    model = CacheReader(replace(spec, path=str(half_precision_model), context_length=256))
    model.watch(watched)
    driver = Driver(SlotScheduler(model))
    request = GenerateRequest(prompt, SAMPLED, max_tokens=16)
    # The first runs alone until it has five tokens, the second ends in company.
    first, second = driver.run(request, replace(request, sampling=GREEDY), tokens_between=5)
    original = model.digests
    assert {1, 2} <= set(first.rows)

    model.watch(watched)
    driver.run(replace(request, resume=first.resume(15)), replace(request, resume=second.resume(15)))
    assert model.digests == original
    assert len(original) == 2 * 14

    if company_changes_bits(model, driver, request, others=1):
        naive = Resume(first.slot, first.tokens[:15], [0, *[1] * 14])
        model.watch(watched)
        driver.resume(request, naive)
        assert model.digests != {at: digest for at, digest in original.items() if at[0] == first.slot}
    driver.engine.close()
