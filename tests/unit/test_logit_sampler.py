"""How a token is chosen from logits."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from models_app.engines.base import DecodeError, GenerateRequest
from models_app.engines.logit_sampler import LogitSampler, _draw, distribution
from models_app.engines.sampling import SamplingParams
from tests.engines.paper import END, Bytes

_PROBABILITIES = [0.4, 0.3, 0.15, 0.1, 0.05]
_LOGITS = np.log(np.array(_PROBABILITIES, np.float32)) + 3


def _left(**params: Any) -> list[int]:
    left: list[int] = distribution(_LOGITS, SamplingParams(**params), {})[0].tolist()
    return left


def test_neutral_parameters_leave_the_models_own_distribution() -> None:
    tokens, probabilities = distribution(_LOGITS, SamplingParams(), {})
    assert tokens.tolist() == [0, 1, 2, 3, 4]
    assert probabilities.tolist() == pytest.approx(_PROBABILITIES, rel=1e-5)


@pytest.mark.parametrize(
    ("params", "left"),
    [
        ({"temperature": 0}, [0]),
        ({"top_k": 2}, [0, 1]),
        ({"top_k": 9}, [0, 1, 2, 3, 4]),
        ({"top_p": 0}, [0]),
        ({"top_p": 0.39}, [0]),
        ({"top_p": 0.5}, [0, 1]),
        ({"top_p": 0.9999}, [0, 1, 2, 3, 4]),
        ({"min_p": 0.3}, [0, 1, 2]),
        ({"min_p": 1}, [0]),
        # Each after the one before it, over what that has left, and none of them sees the temperature.
        ({"top_k": 2, "top_p": 0.5}, [0]),
        ({"top_k": 3, "top_p": 0.9, "min_p": 0.7, "temperature": 9}, [0, 1]),
    ],
    ids=str,
)
def test_what_is_left_to_draw_from(params: dict[str, float], left: list[int]) -> None:
    assert _left(**params) == left


def test_a_nucleus_of_thousands_is_found() -> None:
    logits = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    weights = np.exp(logits.astype(np.float64))
    order = np.argsort(-weights)
    sums = np.cumsum(weights[order]) / weights.sum()
    for mass in (0.1, 0.5, 0.9):
        expected = order[: int(np.searchsorted(sums, mass)) + 1]
        assert set(distribution(logits, SamplingParams(top_p=mass), {})[0]) == set(expected.tolist())


def test_temperature_comes_last() -> None:
    _, probabilities = distribution(_LOGITS, SamplingParams(temperature=2, top_k=2), {})
    roots = [math.sqrt(0.4), math.sqrt(0.3)]
    assert probabilities.tolist() == pytest.approx([root / sum(roots) for root in roots], rel=1e-5)


def test_bias_comes_first_and_penalties_count_what_was_generated() -> None:
    logits = np.array([2.0, -2.0, 1.0, 0.0], np.float32)
    params = SamplingParams(
        repeat_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25, logit_bias=[(0, 2.0), (3, -1.0)]
    )
    expected = np.array([(2 + 2) / 2 - 3 * 0.5 - 0.25, -2 * 2 - 0.5 - 0.25, 1.0, -1.0])
    _, probabilities = distribution(logits, params, {0: 3, 1: 1})
    weights = np.exp(expected)
    assert probabilities.tolist() == pytest.approx((weights / weights.sum()).tolist(), rel=1e-5)
    assert logits.tolist() == [2, -2, 1, 0], "the model's own are left as they are"


def test_a_grammar_leaves_nothing_else_however_likely() -> None:
    allowed = np.array([1, 4])
    params = SamplingParams(top_k=3, logit_bias=[(0, 100.0)])
    tokens, probabilities = distribution(_LOGITS, params, {}, allowed)
    assert tokens.tolist() == [1, 4]
    assert probabilities.tolist() == pytest.approx([6 / 7, 1 / 7], rel=1e-5)
    assert distribution(_LOGITS, SamplingParams(temperature=0), {}, allowed)[0].tolist() == [1]


@pytest.mark.parametrize(("seed", "place"), [(0, 1), (2**31, 3), (2**32 - 1, 3)])
def test_a_draw_takes_what_has_a_probability_to_its_very_ends(seed: int, place: int) -> None:
    assert _draw(np.array([0, 0.5, 0, 0.5, 0], np.float32), seed) == place


def test_what_is_impossible_is_never_drawn() -> None:
    logits = np.full(Bytes.size, -np.inf, np.float32)
    logits[[3, END - 1]] = 0
    drawn = Counter(_sampler(SamplingParams(seed=seed)).sample(logits) for seed in range(400))
    assert drawn.keys() == {3, END - 1}
    assert min(drawn.values()) > 150


def test_a_draw_depends_on_seed_and_position() -> None:
    logits = np.zeros(Bytes.size, np.float32)

    def draws(seed: int, taken: int, count: int) -> list[int]:
        sampler = _sampler(SamplingParams(seed=seed), [5] * taken)
        return [sampler.sample(logits) for _ in range(count)]

    whole = draws(7, 0, 200)
    assert draws(7, 120, 80) == whole[120:]
    assert draws(8, 0, 200) != whole
    assert len(set(whole)) > 100


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_an_error(broken: float) -> None:
    with pytest.raises(DecodeError):
        distribution(np.full(8, broken, np.float32), SamplingParams(), {})


def _sampler(params: SamplingParams, taken: list[int] | None = None) -> LogitSampler:
    return LogitSampler(GenerateRequest([1], params), Bytes(), None, taken or [])
