"""What exllamav2 is told of a request, and how its answers are read: pure, without the library.

Its defaults are not neutral and its random numbers come from a generator with a state. Here every field of its settings
is set, and the number that decides about a token is a function of the request's seed and the token's position.
"""

from collections.abc import Iterable
from typing import Any

from models_app.engines.base import GenerateRequest, RequestError
from models_app.engines.sampling import SamplingParams, seed_at

PAGE = 256
"""Tokens of a page of its cache, which is a whole number of pages."""

_MANTISSA = 24
"""Bits of a number that single precision holds exactly, also next to 1: 1 itself must never come out."""


class PositionRandom:
    """Stands in for the `random.Random` of a job: one number for each position, whatever was drawn before."""

    def __init__(self, seed: int, position: int) -> None:
        self._seed = seed
        self._position = position

    def random(self) -> float:
        """The number of the next position, at least 0 and below 1."""
        number = (seed_at(self._seed, self._position) >> (32 - _MANTISSA)) / float(1 << _MANTISSA)
        self._position += 1
        return number


def settings(params: SamplingParams) -> dict[str, Any]:
    """Every field of `ExLlamaV2Sampler.Settings` that changes what is chosen, as `params` means it.

    The range of the penalties, which count what was generated and never the prompt, is `penalty_range` at each token.
    """
    chosen = {
        "token_repetition_penalty": params.repeat_penalty,
        "token_repetition_range": 0,
        "token_repetition_decay": 0,
        "token_frequency_penalty": params.frequency_penalty,
        "token_presence_penalty": params.presence_penalty,
        "temperature": params.temperature,
        "top_k": params.top_k,
        "top_p": params.top_p,
        "min_p": params.min_p,
    }
    if params.is_greedy:
        chosen |= {"temperature": 1.0, "top_k": 1, "top_p": 0.0, "min_p": 0.0}
    elif params.top_p == 0:  # its 0 means "do not cut"; ours, as every service's, means "only the likeliest"
        chosen |= {"top_k": 1}
    return chosen | _NEUTRAL


_NEUTRAL: dict[str, Any] = {
    "smoothing_factor": 0.0,
    "min_temp": 0.0,
    "max_temp": 0.0,
    "temp_exponent": 1.0,
    "top_a": 0.0,
    "tfs": 0.0,
    "typical": 0.0,
    "skew": 0.0,
    "temperature_last": False,
    "mirostat": False,
    "mirostat_mu": None,
    "token_bias": None,
    "cfg_scale": None,
    "dry_multiplier": 0.0,
    "xtc_probability": 0.0,
}


def penalty_range(params: SamplingParams, generated: int) -> int:
    """How many of the last tokens the penalties look at: those generated so far, and 0 where there are no penalties."""
    return generated if params.has_penalties else 0


def input_tokens(request: GenerateRequest) -> list[int]:
    """What the engine reads before it generates: the prompt, and what was generated before an interruption."""
    return [*request.prompt, *(request.resume.tokens if request.resume else ())]


def most_new_tokens(request: GenerateRequest, context_length: int) -> int:
    """How many tokens may still come; 0 where the journal was complete."""
    generated = len(request.resume.tokens) if request.resume else 0
    limit = context_length - len(request.prompt)
    if request.max_tokens is not None:
        limit = min(limit, request.max_tokens)
    return max(0, limit - generated)


def check(request: GenerateRequest, vocabulary_size: int, context_length: int) -> None:
    """Raise `RequestError` where this model cannot run the request."""
    if len(request.prompt) >= context_length:
        raise RequestError(
            f"the prompt has {len(request.prompt)} tokens; with one of output only"
            f" {context_length - 1} fit into the context",
            "context_length_exceeded",
        )
    if not all(0 <= token < vocabulary_size for token in input_tokens(request)):
        raise RequestError("a token id is not in the vocabulary")
    _refuse_what_is_not_done(request)


def _refuse_what_is_not_done(request: GenerateRequest) -> None:
    """Name what other engines do and this one does not do yet, rather than leave it out in silence."""
    for owner in (request, request.sampling):
        for name in _NOT_DONE:
            if getattr(owner, name, None) not in (None, (), []):
                raise RequestError(f"the engine exllamav2 does not support {name}", "unsupported_parameter")


_NOT_DONE = ("grammar", "logit_bias", "top_logprobs", "logprobs")


def tokens_of(result: dict[str, Any]) -> list[int]:
    """The tokens of one of the generator's results: those it hands out, and at the end those it had held back."""
    held = result.get("held", {}) if result.get("eos") else {}
    return [token for part in (result, held) for token in _flat(part.get("token_ids"))]


def _flat(tensor: Any) -> Iterable[int]:
    return tensor.flatten().tolist() if tensor is not None else ()


def pages(tokens: int) -> int:
    """Tokens of the whole pages that hold so many."""
    return -(-tokens // PAGE) * PAGE
