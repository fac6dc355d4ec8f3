"""What is said of each request over a generator that batches by itself, and that its tokens are chosen as asked.

The logits are those of a model on paper: the library itself computes on a GPU alone (`tests/engines/gpu_check.py`).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models_app.engines import grammar
from models_app.engines.base import GenerateRequest, RequestError, Resume
from models_app.engines.exllamav2 import whole_pages
from models_app.engines.exllamav2_loop import DynamicLoop
from models_app.engines.messages import Admitted, Failed, Progress, Replayed
from models_app.engines.sampling import SamplingParams
from tests.engines.driving import GREEDY, SAMPLED, Driver, Outcome
from tests.engines.paper import END, Bytes, PaperRunner, alphabet, babble

A = [ord("a")]
_CAT = {
    "type": "object",
    "properties": {"cat": {"type": "string", "maxLength": 8}, "lives": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["cat", "lives"],
    "additionalProperties": False,
}


@pytest.fixture
def runner() -> PaperRunner:
    return PaperRunner(alphabet)


@pytest.fixture
def driver(runner: PaperRunner) -> Iterator[Driver]:
    loop = DynamicLoop(runner)
    yield Driver(loop)
    loop.close()


@pytest.fixture
def babbler() -> Iterator[Driver]:
    loop = DynamicLoop(PaperRunner(babble))
    yield Driver(loop)
    loop.close()


def _letters(text: str) -> list[int]:
    return list(text.encode())


def _logprobs(outcome: Outcome) -> list[dict[str, Any]]:
    return [said for message in outcome.messages for said in getattr(message, "logprobs", [])]


def test_a_request_is_admitted_read_and_generated(runner: PaperRunner, driver: Driver) -> None:
    outcome = driver.run_alone(GenerateRequest(A, GREEDY, max_tokens=4))
    assert (outcome.text, outcome.tokens, outcome.finished.reason) == ("bcde", _letters("bcde"), "length")
    assert outcome.messages[0] == Admitted(0)
    assert isinstance(outcome.messages[1], Progress)
    assert outcome.rows == [0, 1, 1, 1]
    assert outcome.finished.timings["output_tokens"] == 4
    assert runner.stopped == []


def test_an_end_token_stops(driver: Driver) -> None:
    outcome = driver.run_alone(GenerateRequest(_letters("x"), GREEDY))
    assert (outcome.text, outcome.tokens[-1], outcome.finished.reason) == ("yz", END, "stop")


def test_a_stop_text_ends_the_output_and_the_job(runner: PaperRunner, driver: Driver) -> None:
    outcome = driver.run_alone(GenerateRequest(A, GREEDY, stop=("fg",)))
    assert (outcome.text, outcome.finished.reason) == ("bcde", "stop")
    assert outcome.tokens == _letters("bcdefg")
    assert runner.stopped == [], "it had ended with that token"


def test_a_resume_is_read_as_input_and_says_that_it_is_not_exact(runner: PaperRunner, driver: Driver) -> None:
    request = GenerateRequest(A, GREEDY, max_tokens=6)
    outcome = driver.run_alone(replace(request, resume=Resume(1, _letters("bc"), [0, 2])))
    assert outcome.messages[0] == Admitted(0, exact=False)
    assert runner.started == [(0, _letters("abc"), 4)]
    assert outcome.replayed == Replayed("bc")
    assert (outcome.text, outcome.tokens) == ("defg", _letters("defg"))
    # An altered journal is followed.
    altered = driver.run_alone(replace(request, resume=Resume(1, _letters("bt"), [0, 2])))
    assert altered.text == "uvwx"


def test_a_journal_that_was_complete_finishes_without_computing(runner: PaperRunner, driver: Driver) -> None:
    outcome = driver.run_alone(GenerateRequest(A, max_tokens=2, resume=Resume(0, _letters("bc"), [0, 1])))
    assert (outcome.finished.reason, outcome.text) == ("length", "")
    assert outcome.replayed.text == "bc"
    assert runner.started == []


def test_those_for_whom_there_is_no_slot_wait_in_their_order() -> None:
    runner = PaperRunner(alphabet, slots=1)
    driver = Driver(DynamicLoop(runner))
    outcomes = [driver.submit(GenerateRequest(A, GREEDY, max_tokens=count))[1] for count in (3, 1, 2)]
    driver.step()
    assert driver.engine.info()["waiting"] == 2
    driver.finish()
    assert [outcome.text for outcome in outcomes] == ["bcd", "b", "bc"]
    assert [key for key, *_ in runner.started] == [0, 1, 2]


def test_a_cancel_ends_those_who_run_and_those_who_wait() -> None:
    runner = PaperRunner(alphabet, slots=1)
    driver = Driver(DynamicLoop(runner))
    running, waiting = (driver.submit(GenerateRequest(A, GREEDY, max_tokens=9)) for _ in range(2))
    while not running[1].tokens:
        driver.step()
    for key, _ in (running, waiting):
        driver.engine.cancel(key)
    driver.engine.cancel(99)
    driver.finish()
    assert [outcome.finished.reason for _, outcome in (running, waiting)] == ["cancelled"] * 2
    assert runner.stopped == [0]


def test_what_does_not_fit_is_refused(driver: Driver) -> None:
    for request in (
        GenerateRequest(A * PaperRunner.context_length),
        GenerateRequest([Bytes.size]),
        GenerateRequest(A, resume=Resume(0, [-1], [0])),
        GenerateRequest(A, SamplingParams(logit_bias=[(Bytes.size, 1.0)])),
    ):
        with pytest.raises(RequestError):
            driver.submit(request)
    assert driver.engine.is_idle


@pytest.mark.parametrize("sampling", [SAMPLED, replace(SAMPLED, temperature=1.8, top_p=1, top_k=0, min_p=0)])
@pytest.mark.parametrize("follow", [None, grammar.from_json_schema(_CAT)], ids=["free", "grammar"])
def test_a_resume_chooses_what_would_have_been_chosen(
    babbler: Driver, sampling: SamplingParams, follow: str | None
) -> None:
    """Of equal logits: draws, penalties, grammar and log probabilities depend on the journal and on nothing else."""
    request = GenerateRequest(A, sampling, max_tokens=60, grammar=follow, top_logprobs=2)
    whole = babbler.run_alone(request)
    for cut in range(0, len(whole.tokens), 5):
        resumed = babbler.resume(request, whole.resume(cut))
        assert whole.tokens[:cut] + resumed.tokens == whole.tokens
        assert whole.text_after(cut) + resumed.text == whole.text
        assert _logprobs(resumed) == _logprobs(whole)[cut:]
    if follow:
        assert whole.finished.reason == "stop"
        assert json.loads(whole.text)["lives"] in range(10)


def test_a_grammar_ends_with_an_end_token_and_where_it_is_cut_it_says_so(babbler: Driver) -> None:
    request = GenerateRequest(A, GREEDY, grammar=grammar.from_json_schema({"enum": ["cat", "cow"]}))
    whole, cut = babbler.run(request, replace(request, max_tokens=3))
    assert (whole.finished.reason, whole.tokens[-1]) == ("stop", END)
    assert json.loads(whole.text) in {"cat", "cow"}
    assert (cut.finished.reason, cut.text) == ("length", whole.text[:3])


def test_a_journal_that_leaves_the_grammar_fails_its_request_alone(runner: PaperRunner, driver: Driver) -> None:
    request = GenerateRequest(A, GREEDY, max_tokens=5)
    follow = grammar.from_regex("x+")
    neighbour, failed = driver.run(request, replace(request, grammar=follow, resume=Resume(0, _letters("xy"), [0, 1])))
    last = failed.messages[-1]
    assert isinstance(last, Failed)
    assert last.code == "grammar_error"
    assert neighbour.text == "bcdef"
    assert driver.run_alone(request).text == "bcdef", "and nothing is left of it"


def test_logits_that_are_no_numbers_fail_their_request_alone() -> None:
    def breaking(tokens: Sequence[int]) -> NDArray[np.float32]:
        return np.full(Bytes.size, np.nan, np.float32) if tokens[0] == ord("b") else alphabet(tokens)

    driver = Driver(DynamicLoop(PaperRunner(breaking)))
    sound, broken = driver.run(*(GenerateRequest(_letters(first), GREEDY, max_tokens=3) for first in "ab"))
    assert sound.text == "bcd"
    last = broken.messages[-1]
    assert isinstance(last, Failed)
    assert last.code == "engine_error"


@pytest.mark.parametrize(("tokens", "whole"), [(1, 256), (256, 256), (257, 512)])
def test_a_cache_has_whole_pages(tokens: int, whole: int) -> None:
    assert whole_pages(tokens) == whole
