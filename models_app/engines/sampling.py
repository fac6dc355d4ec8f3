"""How a token is chosen: the parameters, and the randomness that belongs to each position.

The random seed of a position is a pure function of the request's seed and that position, so that a resumed
sequence draws what it would have drawn, and no generator state has to be saved.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

SAMPLER_VERSION = 2
"""Part of every fingerprint. Raise it with any change here that could choose another token."""

MAX_SEED = 2**63 - 1

_COLDEST = 1e-4
"""Below this temperature a draw is the most likely token anyway, and logits divided by it leave their range."""

_MASK = 2**64 - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_RESERVED_SEED = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What a request may say about the choice of tokens; the defaults are neutral.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 cut nothing off. The penalties count the tokens
    generated so far, never the prompt. `logit_bias` adds to the logits of tokens, before all else. Raises `ValueError`
    where a value is out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    seed: int = 0
    logit_bias: Sequence[tuple[int, float]] = ()

    def __post_init__(self) -> None:
        """Refuse what no sampler can honour; llama.cpp itself would abort the process or ignore it."""
        _require(math.isfinite(self.temperature) and self.temperature >= 0, "temperature must be 0 or greater")
        _require(0 <= self.top_p <= 1, "top_p must lie between 0 and 1")
        _require(0 <= self.top_k < 2**31, "top_k must be 0 or greater")
        _require(0 <= self.min_p <= 1, "min_p must lie between 0 and 1")
        _require(math.isfinite(self.presence_penalty), "presence_penalty must be finite")
        _require(math.isfinite(self.frequency_penalty), "frequency_penalty must be finite")
        _require(math.isfinite(self.repeat_penalty) and self.repeat_penalty > 0, "repeat_penalty must be positive")
        _require(0 <= self.seed <= MAX_SEED, "seed must lie between 0 and 2^63-1")
        _require(all(math.isfinite(bias) for _, bias in self.logit_bias), "the values of logit_bias must be finite")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature < _COLDEST

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the choice of later ones."""
        return self.presence_penalty != 0 or self.frequency_penalty != 0 or self.repeat_penalty != 1

    def to_dict(self) -> dict[str, Any]:
        """The parameters as JSON has them."""
        return asdict(self)


def seed_at(seed: int, position: int) -> int:
    """The 32-bit seed of the draw at `position` (0 is the first generated token) under the request's `seed`.

    Two rounds of SplitMix64's finalizer. The request's seed is mixed before the position is added, or the draws
    of one seed would be those of another, shifted. llama.cpp reads 0xFFFFFFFF as "seed me at random", so that
    value is never returned.
    """
    mixed = _mix(_mix(seed & _MASK) + (position + 1) * _GOLDEN_GAMMA & _MASK) >> 32
    return mixed if mixed != _RESERVED_SEED else 0


def _mix(value: int) -> int:
    """SplitMix64's finalizer, a bijection of 64-bit integers (Steele, Lea and Flood 2014)."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
