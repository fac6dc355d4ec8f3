"""What `scheduler.SlotScheduler` asks of a model: a cache in slots, and computations over rows."""

import mmap
from collections.abc import Sequence
from typing import Protocol

from models_app.engines.base import GenerateRequest
from models_app.engines.logprobs import TokenLogprob
from models_app.engines.transcript import Vocabulary


class SlotSampler(Protocol):
    """Chooses the tokens of one sequence."""

    last_logprob: TokenLogprob | None
    """How likely the token that was chosen last was, where the request wants to know."""

    def sample(self, row: int, position: int) -> int:
        """Choose the token at `position` of the output from the logits of a row of the last computation.

        Raises `GrammarError` where the request's grammar cannot be followed.
        """

    def accept(self, token: int) -> None:
        """Take note of a token that was chosen in an earlier run."""

    def close(self) -> None:
        """Free what it holds."""


class SlotModel(Protocol):
    """A loaded model whose cache has slots. All but `abort` belong to one thread."""

    slots: int
    context_length: int
    prefill_chunk: int
    fingerprint: str
    lengths: list[int]

    @property
    def threads(self) -> dict[str, int]:
        """How many threads compute what, for people."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""

    def prefill(self, slot: int, tokens: Sequence[int], *, last: bool) -> bool:
        """Append a chunk to the slot's cache; False, with the slot cleared, where `abort` broke it off."""

    def decode(self, rows: Sequence[int | None], *, logits: bool) -> None:
        """Feed one token, or none, to each of the first slots, in one computation of `len(rows)` rows."""

    def sampler(self, request: GenerateRequest) -> SlotSampler:
        """A sampler for one sequence."""

    def clear(self, slot: int) -> None:
        """Empty the slot's cache."""

    def save(self, slot: int) -> mmap.mmap:
        """A copy of the slot's cache."""

    def restore(self, slot: int, state: bytes | mmap.mmap, length: int) -> bool:
        """Fill an empty slot with the first `length` tokens of a saved cache; False, and empty, where it cannot."""

    def abort(self) -> None:
        """Break off the prefill that is running, from another thread."""

    def rearm(self) -> None:
        """Forget the abort."""

    def close(self) -> None:
        """Free the model."""
