"""What is said of each request over a generator that batches by itself.

The generator here says what was written down for it, in the shape in which the library says it: the library itself
computes on a GPU alone (`tests/engines/gpu_check.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from models_app.engines.base import GenerateRequest, RequestError, Resume
from models_app.engines.exllamav2_loop import DynamicLoop, JobNews
from models_app.engines.messages import Admitted, Progress, Replayed
from models_app.engines.sampling import SamplingParams
from tests.engines.driving import Driver, Outcome

END = 0


class Letters:
    """Token n is the n-th letter; 0 ends."""

    size = 27

    def piece(self, token: int) -> bytes:
        return b"" if token == END else bytes([96 + token])

    def name(self, token: int) -> bytes:
        return b"<end>" if token == END else self.piece(token)

    def is_end(self, token: int) -> bool:
        return token == END


class Alphabet:
    """Goes on in the alphabet, in groups of so many letters, and says what it was told."""

    context_length = 40
    fingerprint = "none"

    def __init__(self, slots: int = 2, group: int = 1) -> None:
        self.slots = slots
        self.vocabulary = Letters()
        self.started: list[tuple[int, list[int], int, int]] = []
        self.stopped: list[int] = []
        self.ranges: list[tuple[int, int]] = []
        self._group = group
        self._jobs: dict[int, list[int]] = {}

    def start(self, key: int, tokens: Sequence[int], most: int, sampling: SamplingParams, position: int) -> None:
        self.started.append((key, list(tokens), most, position))
        last = tokens[-1]
        self._jobs[key] = [*range(last + 1, 27), END][:most]

    def look_back(self, key: int, tokens: int) -> None:
        self.ranges.append((key, tokens))

    def stop(self, key: int) -> None:
        self.stopped.append(key)
        del self._jobs[key]

    def run(self) -> list[JobNews]:
        news = []
        for key, left in list(self._jobs.items()):
            said, self._jobs[key] = left[: self._group], left[self._group :]
            news += [JobNews(key, prefilled=(1, 1)), JobNews(key, said, ended=not self._jobs[key])]
            if not self._jobs[key]:
                del self._jobs[key]
        return news

    def info(self) -> dict[str, Any]:
        return {"devices": ["paper"]}

    def close(self) -> None:
        self._jobs.clear()


def _run(alphabet: Alphabet, *requests: GenerateRequest) -> list[Outcome]:
    return Driver(DynamicLoop(alphabet)).run(*requests)


def test_a_request_is_admitted_read_and_generated() -> None:
    alphabet = Alphabet()
    [outcome] = _run(alphabet, GenerateRequest([1], max_tokens=4))
    assert (outcome.text, outcome.tokens, outcome.finished.reason) == ("bcde", [2, 3, 4, 5], "length")
    assert outcome.messages[0] == Admitted(0)
    assert isinstance(outcome.messages[1], Progress)
    assert len(outcome.rows) == 4
    assert outcome.finished.timings["output_tokens"] == 4
    assert alphabet.stopped == []


def test_an_end_token_stops() -> None:
    [outcome] = _run(Alphabet(), GenerateRequest([24]))
    assert (outcome.text, outcome.tokens[-1], outcome.finished.reason) == ("yz", END, "stop")


@pytest.mark.parametrize("group", [1, 3, 9])
def test_a_stop_text_ends_the_output_and_the_job_however_tokens_come(group: int) -> None:
    alphabet = Alphabet(group=group)
    [outcome] = _run(alphabet, GenerateRequest([1], stop=("fg",)))
    assert (outcome.text, outcome.finished.reason) == ("bcde", "stop")
    assert outcome.tokens == [2, 3, 4, 5, 6, 7]
    assert alphabet.stopped == [0]


def test_a_resume_is_read_as_input_and_says_that_it_is_not_exact() -> None:
    request = GenerateRequest([1], max_tokens=6)
    alphabet = Alphabet()
    [outcome] = _run(alphabet, replace(request, resume=Resume(1, [2, 3], [0, 2])))
    assert outcome.messages[0] == Admitted(0, exact=False)
    assert alphabet.started == [(0, [1, 2, 3], 4, 2)]
    assert outcome.replayed == Replayed("bc")
    assert (outcome.text, outcome.tokens) == ("defg", [4, 5, 6, 7])
    # An altered journal is followed.
    [altered] = _run(Alphabet(), replace(request, resume=Resume(1, [2, 20], [0, 2])))
    assert altered.text == "uvwx"


def test_a_journal_that_was_complete_finishes_without_computing() -> None:
    alphabet = Alphabet()
    [outcome] = _run(alphabet, GenerateRequest([1], max_tokens=2, resume=Resume(0, [2, 3], [0, 1])))
    assert (outcome.finished.reason, outcome.text) == ("length", "")
    assert outcome.replayed.text == "bc"
    assert alphabet.started == []


def test_those_for_whom_there_is_no_slot_wait_in_their_order() -> None:
    alphabet = Alphabet(slots=1)
    driver = Driver(DynamicLoop(alphabet))
    outcomes = [driver.submit(GenerateRequest([1], max_tokens=count))[1] for count in (3, 1, 2)]
    driver.step()
    assert driver.engine.info()["waiting"] == 2
    driver.finish()
    assert [outcome.text for outcome in outcomes] == ["bcd", "b", "bc"]
    assert [key for key, *_ in alphabet.started] == [0, 1, 2]


def test_a_cancel_ends_those_who_run_and_those_who_wait() -> None:
    alphabet = Alphabet(slots=1)
    driver = Driver(DynamicLoop(alphabet))
    running, waiting = (driver.submit(GenerateRequest([1], max_tokens=9)) for _ in range(2))
    while not running[1].tokens:
        driver.step()
    for key, _ in (running, waiting):
        driver.engine.cancel(key)
    driver.engine.cancel(99)
    driver.finish()
    assert [outcome.finished.reason for _, outcome in (running, waiting)] == ["cancelled"] * 2
    assert alphabet.stopped == [0]


def test_penalties_look_back_as_far_as_was_generated() -> None:
    alphabet = Alphabet()
    _run(alphabet, GenerateRequest([1], SamplingParams(frequency_penalty=1.0), max_tokens=3))
    assert alphabet.ranges == [(0, 0), (0, 1), (0, 2)]


def test_what_does_not_fit_is_refused() -> None:
    loop = DynamicLoop(Alphabet())
    with pytest.raises(RequestError):
        loop.submit(0, GenerateRequest([1] * 40))
    assert loop.is_idle
