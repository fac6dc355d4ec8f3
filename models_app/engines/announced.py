"""Prompts whose requests are about to come, and the one that was begun to be read."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from models_app.engines.sequence import SlotSequence


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is in the cache of a slot that nobody has yet: the first `end` tokens of a prompt.

    Attributes:
        slot: where it was read.
        prompt: token ids.
        reused: tokens that came from a kept beginning.
        end: tokens in the cache; the last chunk's logits are there, if that is all of the prompt.
    """

    slot: int
    prompt: Sequence[int]
    reused: int
    end: int


class Announced:
    """The prompts that wait to be begun, the newest few, and the beginning of the last one that was."""

    def __init__(self, most: int) -> None:
        self.waiting: deque[Sequence[int]] = deque(maxlen=most)
        self.beginning: Beginning | None = None
        self.used = 0
        """Tokens that had been read when their requests came."""

    def forget(self, prompt: Sequence[int]) -> None:
        """Drop a prompt that is not begun: its request has come."""
        with suppress(ValueError):
            self.waiting.remove(prompt)

    def take(self, slot: int, sequence: SlotSequence) -> Beginning | None:
        """Hand out the beginning, if it lies where a new sequence is to be, and is the one of its prompt."""
        beginning = self.beginning
        if (
            beginning is None
            or sequence.forced
            or (beginning.slot, beginning.prompt) != (slot, sequence.request.prompt)
        ):
            return None
        self.beginning = None
        self.used += beginning.end - beginning.reused
        return beginning
