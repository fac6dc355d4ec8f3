"""How a token is chosen from the logits that an engine hands out, in the order in which llama.cpp's chain does it.

The grammar, then bias, penalties, `top_k`, `top_p`, `min_p`, temperature, and a draw keyed by seed and position. Pure:
numpy and no library of an engine, for those whose own sampler does not do all of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from models_app.engines import grammar, logprobs
from models_app.engines.base import DecodeError, GenerateRequest
from models_app.engines.grammar import Matcher
from models_app.engines.logprobs import TokenLogprob
from models_app.engines.sampling import SamplingParams, seed_at
from models_app.engines.transcript import Vocabulary

_SEEDS = 2**32
"""How many numbers `seed_at` may return."""


class LogitSampler:
    """Chooses the tokens of one sequence, each in any thread, one after the other."""

    def __init__(
        self, request: GenerateRequest, vocabulary: Vocabulary, matcher: Matcher | None, taken: Sequence[int]
    ) -> None:
        """Begin after the tokens `taken`, which an earlier run has chosen."""
        self.last_logprob: TokenLogprob | None = None
        """How likely the token that was chosen last was, and which were likelier; where the request asks for it."""

        self._params = request.sampling
        self._top_logprobs = request.top_logprobs
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._position = len(taken)
        self._counts = Counter(taken)
        if matcher is not None and taken:
            for token in taken:
                matcher.accept(token)
            matcher.prepare()

    def sample(self, logits: NDArray[np.float32]) -> int:
        """Choose the next token from the model's raw logits, which are left as they are.

        `logits` has one number for each token of the vocabulary.

        Raises:
            GrammarError: see `Matcher.mask`.
            DecodeError: they are no numbers.
        """
        allowed = None if self._matcher is None else grammar.allowed_tokens(self._matcher.mask(), len(logits))
        tokens, probabilities = distribution(logits, self._params, self._counts, allowed)
        token = int(tokens[_draw(probabilities, seed_at(self._params.seed, self._position))])
        self._position += 1
        self._counts[token] += 1
        if self._matcher is not None:
            self._matcher.accept(token)
            self._matcher.prepare()
        if self._top_logprobs is not None:
            self.last_logprob = logprobs.of(logits, token, self._top_logprobs, self._vocabulary)
        return token


def distribution(
    logits: NDArray[np.float32],
    params: SamplingParams,
    counts: Mapping[int, int],
    allowed: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the tokens that may be drawn, in the order of their ids, and the probability of each.

    Args:
        logits: the model's own, one for each token.
        params: how to choose.
        counts: how often each token was generated so far.
        allowed: the tokens that a grammar allows; None where there is none.

    Raises:
        DecodeError: the logits are no numbers.
    """
    scores = _biased_and_penalized(logits, params, counts)
    tokens = np.arange(len(scores)) if allowed is None else allowed
    scores = scores[tokens]
    best = int(np.argmax(scores))  # the first of equals, and of what is no number
    if not np.isfinite(scores[best]):
        raise DecodeError("the model computed no numbers for the next token")
    if params.is_greedy:
        return tokens[best : best + 1], np.ones(1, np.float32)
    if 0 < params.top_k < len(scores):
        kept = _top_k(scores, params.top_k)
        tokens, scores = tokens[kept], scores[kept]
    if params.top_p < 1:
        kept = np.sort(nucleus(scores, params.top_p))
        tokens, scores = tokens[kept], scores[kept]
    if params.min_p > 0:
        kept = _min_p(scores, params.min_p)
        tokens, scores = tokens[kept], scores[kept]
    return tokens, _softmax(scores / params.temperature)


def nucleus(logits: NDArray[np.float32], top_p: float) -> NDArray[np.intp]:
    """Return the fewest tokens whose probabilities make up `top_p`, at least one, the likeliest first."""
    weights = np.exp(logits - logits.max())
    wanted = float(weights.sum()) * top_p
    # All that are less likely than this have, together, no more than may be left out: they need not be sorted.
    likely = np.flatnonzero(weights >= weights.sum() * (1 - top_p) / len(weights))
    ordered = likely[np.argsort(-weights[likely], kind="stable")]
    reached = np.cumsum(weights[ordered], dtype=np.float64)
    return ordered[: int(np.searchsorted(reached, wanted)) + 1]


def _biased_and_penalized(
    logits: NDArray[np.float32], params: SamplingParams, counts: Mapping[int, int]
) -> NDArray[np.float32]:
    scores = logits.copy()
    for token, bias in params.logit_bias:
        scores[token] += bias
    if params.has_penalties and counts:
        seen = np.fromiter(counts, np.intp, len(counts))
        times = np.fromiter(counts.values(), np.float32, len(counts))
        raw = scores[seen]
        scaled = np.where(raw > 0, raw / params.repeat_penalty, raw * params.repeat_penalty)
        scores[seen] = scaled - times * params.frequency_penalty - params.presence_penalty
    return scores


# Both return the places of the scores that are left, in ascending order.


def _top_k(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    return np.sort(np.argpartition(scores, -count)[-count:])


def _min_p(scores: NDArray[np.float32], share: float) -> NDArray[np.intp]:
    return np.flatnonzero(scores >= scores.max() + np.log(share))


def _softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    weights: NDArray[np.float32] = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights


def _draw(probabilities: NDArray[np.float32], seed: int) -> int:
    """Return a place by its probability; one of probability 0 never, and never one beyond the last."""
    sums = np.cumsum(probabilities, dtype=np.float64)
    return int(np.searchsorted(sums, seed / _SEEDS * sums[-1], side="right"))
