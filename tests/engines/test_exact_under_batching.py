"""Whatever ran beside a sequence, after kill -9 its cache is rebuilt bit for bit, for every way a model is quantised.

An engine process runs eight sequences that came one after the other, and saves the cache of each now and then. It is
killed at a random moment. Here, in another process, the eight journals are forced, and at the length at which the dead
process had saved a cache, this one's must have the very same bits.
"""

import hashlib
import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from models_app.engines import checkpoints
from models_app.engines.base import Checkpoint, GenerateRequest, ModelSpec, Resume
from models_app.engines.client import EngineDied, Generation
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.scheduler import SlotScheduler
from tests.engines.conftest import StartEngine
from tests.engines.driving import (
    GREEDY,
    QUANTISATIONS,
    SAMPLED,
    CacheReader,
    Driver,
    Outcome,
    chat_prompt,
    company_changes_bits,
    quantise,
)
from tests.service import demo_model

_SEQUENCES = 8
_QUESTIONS = ("Write a story about a king.", "Describe the sea.", "Count to fifty in words.", "Name ten animals.")


@pytest.fixture(params=["Q4_1", *QUANTISATIONS])
def quantisation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def quantised(quantisation: str, spec: ModelSpec, tmp_path: Path) -> Iterator[ModelSpec]:
    path = demo_model()
    if quantisation in QUANTISATIONS:
        path = tmp_path / "model.gguf"
        quantise(demo_model(), path, quantisation)
    yield replace(spec, path=str(path), digest=quantisation, slots=_SEQUENCES, context_length=256, flush_interval=0)
    if quantisation in QUANTISATIONS:
        path.unlink()


def _requests(tokenizer: Tokenizer, directory: Path) -> list[GenerateRequest]:
    return [
        GenerateRequest(
            chat_prompt(tokenizer, _QUESTIONS[number % len(_QUESTIONS)]),
            replace(SAMPLED, seed=number) if number % 2 else GREEDY,
            checkpoint=Checkpoint(str(directory / f"cache-{number}"), every=7),
        )
        for number in range(_SEQUENCES)
    ]


def _run_until_killed(engine_pid: int, generations: list[Generation], outcomes: list[Outcome], tokens: int) -> None:
    """Read what all of them say until so many tokens have come, kill the engine, and read what it had said."""
    while sum(len(outcome.tokens) for outcome in outcomes) < tokens:
        for generation, outcome in zip(generations, outcomes, strict=True):
            if (message := generation.next(0.005)) is not None:
                outcome.add(message)
    os.kill(engine_pid, signal.SIGKILL)
    for generation, outcome in zip(generations, outcomes, strict=True):
        try:
            while (message := generation.next(5)) is not None:
                outcome.add(message)
        except EngineDied:
            pass


def test_eight_staggered_sequences_are_rebuilt_bit_for_bit_after_kill_9(
    quantisation: str, quantised: ModelSpec, start_engine: StartEngine, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rng = random.Random(os.urandom(8))
    requests = _requests(tokenizer, tmp_path)
    address = start_engine(**{name: value for name, value in quantised.to_dict().items() if name != "threads"})
    generations: list[Generation] = []
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        for request in requests:
            generation = stack.enter_context(Generation(address, request))
            generations.append(generation)
            outcomes.append(Outcome())
            lead = rng.randrange(1, 6)
            while len(outcomes[-1].tokens) < lead and generation.finished is None:
                for each, outcome in zip(generations, outcomes, strict=True):
                    if (message := each.next(0.005)) is not None:
                        outcome.add(message)
        said = sum(len(outcome.tokens) for outcome in outcomes)
        _run_until_killed(address.pid, generations, outcomes, said + rng.randrange(60, 160))

    model = CacheReader(quantised)
    assert model.fingerprint == address.fingerprint
    driver = Driver(SlotScheduler(model))
    saved: dict[tuple[int, int], str] = {}
    resumes = []
    for request, outcome in zip(requests, outcomes, strict=True):
        assert request.checkpoint is not None
        if outcome.ended:
            continue
        cut = len(outcome.tokens)
        resumes.append(
            replace(
                request, checkpoint=None, max_tokens=cut + 1, resume=Resume(outcome.slot, outcome.tokens, outcome.rows)
            )
        )
        found = checkpoints.read(Path(request.checkpoint.path))
        # The last token of a journal is fed freely.
        if found is not None and len(found[0].tokens) < cut:
            origin, state = found
            assert list(origin.tokens) == outcome.tokens[: len(origin.tokens)]
            saved[outcome.slot, len(request.prompt) + len(origin.tokens)] = hashlib.sha256(state).hexdigest()
    assert len(saved) >= _SEQUENCES // 2, "most of them had been saved before the kill"

    model.watch(saved)
    driver.run(*rng.sample(resumes, len(resumes)))
    assert model.digests == saved

    if company_changes_bits(model, driver, requests[0], _SEQUENCES - 1):
        model.watch(saved)
        for resume in resumes:
            assert resume.resume is not None
            alone = replace(resume.resume, rows=[0, *[resume.resume.slot + 1] * (len(resume.resume.tokens) - 1)])
            driver.run_alone(replace(resume, resume=alone))
        assert model.digests != saved
    driver.engine.close()
