"""Which bits come out does not depend on how many threads compute, where the service changes their number."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models_app.engines.base import ModelSpec
from models_app.engines.llamacpp_context import PREFILL_CHUNK, SlotContext
from models_app.engines.thread_choice import Threads
from tests.engines.driving import QUANTISATIONS, quantise
from tests.service import demo_model

_SLOTS = 4
# A single row's number of threads may change up to 256 tokens, that of several beyond them.
_PROMPT = 250
_END_OF_ONE_ROW = 256
_DECODES = 4


class _Computing(SlotContext):
    """The real model, which digests the logits that it computes."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, lambda _progress: None)
        self._digest = hashlib.sha256()

    def compute_with(self, threads: int) -> dict[str, str]:
        """Read a prompt and decode with so many threads; return a digest for each kind of computation."""
        self._threads = Threads(threads)
        for slot in range(_SLOTS):
            self.clear(slot)
        prompt = [7 * place + 100 for place in range(_PROMPT)]
        for start in range(0, _PROMPT, PREFILL_CHUNK):
            chunk = prompt[start : start + PREFILL_CHUNK]
            assert self.prefill(0, chunk, last=start + len(chunk) == _PROMPT)
        self._take(len(chunk) - 1)
        found = {"prefill": self._taken()}
        for token in range(_END_OF_ONE_ROW - _PROMPT):
            self.decode([1000 + token], logits=True)
            self._take(0)
        found["one row"] = self._taken()
        for slot in range(1, _SLOTS):
            assert self.prefill(slot, prompt[slot : slot + 9], last=True)
        for token in range(_DECODES):
            self.decode([2000 + token + slot for slot in range(_SLOTS)], logits=True)
            for slot in range(_SLOTS):
                self._take(slot)
        found["rows"] = self._taken()
        return found

    def _take(self, row: int) -> None:
        pointer = self._lib.llama_get_logits_ith(self._context, row)
        self._digest.update(np.ctypeslib.as_array(pointer, (self.vocabulary.size,)).tobytes())

    def _taken(self) -> str:
        digest, self._digest = self._digest, hashlib.sha256()
        return digest.hexdigest()


@pytest.fixture(params=["Q4_1", *QUANTISATIONS])
def model(request: pytest.FixtureRequest, spec: ModelSpec, tmp_path: Path) -> Iterator[_Computing]:
    path = demo_model()
    if request.param in QUANTISATIONS:
        path = tmp_path / "model.gguf"
        quantise(demo_model(), path, request.param)
    context = _Computing(replace(spec, path=str(path), slots=_SLOTS))
    yield context
    context.close()


def test_the_number_of_threads_may_change_at_any_moment(model: _Computing) -> None:
    alone = model.compute_with(1)
    assert len(set(alone.values())) == 3, "each of these computes something else"
    assert model.compute_with(2) == alone
