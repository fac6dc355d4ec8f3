"""A model on paper: logits that are a function of the tokens before them, for what is done over logits everywhere."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models_app.engines.exllamav2_loop import Choose, Prefilled
from models_app.engines.grammar import Vocabulary

END, TAG = 256, 257

LogitsAfter = Callable[[Sequence[int]], NDArray[np.float32]]


class Bytes:
    """A vocabulary of single bytes, an end token, and a token that has no text."""

    size = 258

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < END else b""

    def name(self, token: int) -> bytes:
        return self.piece(token) or (b"<|end|>" if token == END else b"<|tag|>")

    def is_end(self, token: int) -> bool:
        return token == END

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert (add_special, parse_special) == (False, False)
        return list(text.encode())


def alphabet(tokens: Sequence[int]) -> NDArray[np.float32]:
    """Go on in the alphabet, and end after its last letter."""
    logits = np.zeros(Bytes.size, np.float32)
    logits[END if tokens[-1] == ord("z") else tokens[-1] + 1] = 20
    return logits


def babble(tokens: Sequence[int]) -> NDArray[np.float32]:
    """Prefer what can be printed, and something else at each place."""
    logits = drawn(tokens, Bytes.size)
    logits[ord(" ") : ord("~")] += 4
    return logits


def drawn(tokens: Sequence[int], size: int) -> NDArray[np.float32]:
    """Return numbers of a normal distribution, the same ones for the same tokens."""
    seed = zlib.crc32(np.array(tokens, np.int64).tobytes())
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


@dataclass
class _Job:
    tokens: list[int]
    left: int
    choose: Choose
    is_prefilled: bool = False


class PaperRunner:
    """A `JobRunner` that computes by a function, and keeps what it was told."""

    context_length = 512
    fingerprint = "paper"

    def __init__(self, logits_after: LogitsAfter, slots: int = 2) -> None:
        self.slots = slots
        self.vocabulary: Vocabulary = Bytes()
        self.started: list[tuple[int, list[int], int]] = []
        self.stopped: list[int] = []
        self._logits_after = logits_after
        self._jobs: dict[int, _Job] = {}

    def start(self, key: int, tokens: Sequence[int], most: int, choose: Choose) -> None:
        self.started.append((key, list(tokens), most))
        self._jobs[key] = _Job(list(tokens), most, choose)

    def stop(self, key: int) -> None:
        self.stopped.append(key)
        del self._jobs[key]

    def run(self) -> list[Prefilled]:
        assert len(self._jobs) <= self.slots
        prefilled = []
        for key, job in list(self._jobs.items()):
            if not job.is_prefilled:
                job.is_prefilled = True
                prefilled.append(Prefilled(key, len(job.tokens), len(job.tokens)))
                continue
            logits = self._logits_after(job.tokens)
            logits.flags.writeable = False  # they are the model's own
            token, ended = job.choose(logits)
            job.tokens.append(token)
            job.left -= 1
            if ended:
                del self._jobs[key]
            else:
                assert job.left > 0, "it was to end with its last token"
        return prefilled

    def info(self) -> dict[str, Any]:
        return {"devices": ["paper"]}

    def close(self) -> None:
        self._jobs.clear()
