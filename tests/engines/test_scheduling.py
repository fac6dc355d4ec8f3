"""Who is served when: cancelling, prompts beside each other, prompts beside those who generate."""

import itertools
import threading
import time

import pytest

from models_app.engines import scheduler
from models_app.engines.base import GenerateRequest
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.messages import Progress
from tests.engines.driving import GREEDY, Driver, chat_prompt

STORY = "Write a story about a king."


def _long_prompt(tokenizer: Tokenizer, length: int) -> list[int]:
    return chat_prompt(tokenizer, "Tell me about the sea. " * length)[:length]


def test_a_cancel_breaks_a_prefill_off_within_its_chunk(
    driver: Driver, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    key, cancelled = driver.submit(GenerateRequest(_long_prompt(tokenizer, 500), GREEDY))
    driver.step()
    began = time.monotonic()
    driver.step()
    chunk_took = time.monotonic() - began
    assert isinstance(cancelled.messages[-1], Progress)

    cancelled_at: list[float] = []

    def cancel() -> None:
        cancelled_at.append(time.monotonic())
        driver.engine.cancel(key)

    # In the middle of the next chunk, when the engine computes and no Python runs in its thread.
    timer = threading.Timer(chunk_took / 2, cancel)
    timer.start()
    began = time.monotonic()
    driver.step()
    ended = time.monotonic()
    timer.join()
    driver.finish()
    assert cancelled.finished.reason == "cancelled"
    assert ended - cancelled_at[0] < 0.25
    assert ended - began < chunk_took * 0.9 + 0.1
    assert cancelled.finished.timings["output_tokens"] == 0
    assert not caplog.records, "what was asked for is no error"


def test_a_slot_is_as_good_as_new_after_a_cancelled_prefill(driver: Driver, tokenizer: Tokenizer) -> None:
    request = GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=12)
    before = driver.run_alone(request)
    key, cancelled = driver.submit(GenerateRequest(_long_prompt(tokenizer, 500), GREEDY))
    while not any(isinstance(message, Progress) for message in cancelled.messages):
        driver.step()
    driver.engine.cancel(key)
    after = driver.run_alone(request)
    assert cancelled.finished.reason == "cancelled"
    assert (after.slot, after.tokens) == (cancelled.slot, before.tokens)


def test_those_who_generate_go_on_while_a_long_prompt_is_read(driver: Driver, tokenizer: Tokenizer) -> None:
    key, generating = driver.submit(GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=200))
    while not generating.tokens:
        driver.step()
    _key, reading = driver.submit(GenerateRequest(_long_prompt(tokenizer, 300), GREEDY, max_tokens=1))
    tokens_at_chunk: list[int] = []
    while not reading.ended:
        if any(isinstance(message, Progress) for message in driver.step()):
            tokens_at_chunk.append(len(generating.tokens))
    assert len(tokens_at_chunk) == 4
    assert all(later > earlier for earlier, later in itertools.pairwise(tokens_at_chunk))
    driver.engine.cancel(key)


@pytest.mark.parametrize("longest_stall", [0.0, 1000.0])
def test_short_prompts_are_read_at_a_stretch_as_long_as_nobody_waits_too_long(
    driver: Driver, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, longest_stall: float
) -> None:
    monkeypatch.setattr(scheduler, "_LONGEST_STALL", longest_stall)
    key, generating = driver.submit(GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=200))
    while len(generating.tokens) < 2:
        driver.step()
    short = [
        driver.submit(GenerateRequest(_long_prompt(tokenizer, 130 + number), GREEDY, max_tokens=1))[1]
        for number in range(3)
    ]
    before = len(generating.tokens)
    while not all(each.ended for each in short):
        driver.step()
    chunks = 3 * 3
    assert (len(generating.tokens) - before >= chunks - 1) == (longest_stall == 0)
    assert (len(generating.tokens) == before) == (longest_stall > 0)
    driver.engine.cancel(key)


@pytest.mark.parametrize("longest_start", [0.0, 1000.0])
def test_those_who_come_together_go_on_together(
    driver: Driver, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, longest_start: float
) -> None:
    monkeypatch.setattr(scheduler, "_LONGEST_START", longest_start)
    monkeypatch.setattr(scheduler, "_LONGEST_STALL", 0.0)
    request = GenerateRequest(_long_prompt(tokenizer, 130), GREEDY, max_tokens=30)
    together = [driver.submit(request)[1] for _ in range(3)]
    while not together[-1].tokens:
        driver.step()
    at_the_last_ones_first = [len(each.tokens) for each in together]
    assert (at_the_last_ones_first == [1, 1, 1]) == (longest_start > 0)
    driver.finish()
    assert len({tuple(each.tokens) for each in together}) == 1


def test_a_short_prompt_does_not_wait_for_a_long_one(driver: Driver, tokenizer: Tokenizer) -> None:
    key, long = driver.submit(GenerateRequest(_long_prompt(tokenizer, 500), GREEDY, max_tokens=1))
    driver.step()
    driver.step()
    _key, short = driver.submit(GenerateRequest(chat_prompt(tokenizer, STORY), GREEDY, max_tokens=1))
    while not short.ended:
        driver.step()
    assert not long.ended
    assert sum(isinstance(message, Progress) for message in long.messages) <= 3
    driver.engine.cancel(key)


def test_those_who_wait_are_served_in_the_order_they_came(driver: Driver, tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(tokenizer, STORY)
    lengths = (20, 2, 20, 20, 2, 2)
    outcomes = driver.run(*(GenerateRequest(prompt, GREEDY, max_tokens=length) for length in lengths))
    assert [outcome.slot for outcome in outcomes] == [0, 1, 2, 3, 1, 1]
