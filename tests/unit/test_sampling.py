"""Sampling parameters, and randomness that depends on nothing but seed and position."""

from typing import Any

import pytest

from models_app.engines.sampling import MAX_SEED, SamplingParams, seed_at


def test_the_seed_of_a_position_never_changes() -> None:
    """These values are stored nowhere, but every running task depends on them: see SAMPLER_VERSION."""
    assert [seed_at(0, position) for position in range(3)] == [3793791033, 1853398634, 113532184]
    assert [seed_at(MAX_SEED, position) for position in (0, 1, 10**6)] == [2393366549, 2874863142, 3372277045]


def test_neighbouring_seeds_and_positions_share_nothing() -> None:
    drawn = {seed_at(seed, position) for seed in range(200) for position in range(200)}
    assert len(drawn) > 40_000 - 10  # a few of 40,000 draws from 2^32 may coincide


def test_no_seed_is_another_one_shifted() -> None:
    sequences = [[seed_at(seed, position) for position in range(50)] for seed in range(50)]
    for number, one in enumerate(sequences):
        for other in sequences[number + 1 :]:
            assert not set(one) & set(other)


def test_every_bit_is_as_often_set_as_not() -> None:
    draws = [seed_at(seed, position) for seed in range(100) for position in range(100)]
    for bit in range(32):
        ones = sum(draw >> bit & 1 for draw in draws)
        assert abs(ones - 5000) < 250  # five standard deviations


def test_seeds_fit_llama_cpp_and_are_never_the_one_it_reads_as_random() -> None:
    draws = [seed_at(seed, position) for seed in (0, 1, MAX_SEED) for position in range(10_000)]
    assert all(0 <= draw < 2**32 - 1 for draw in draws)


def test_the_defaults_are_neutral() -> None:
    params = SamplingParams()
    assert not params.is_greedy
    assert not params.has_penalties
    assert SamplingParams(**params.to_dict()) == params


def test_temperature_zero_is_greedy() -> None:
    assert SamplingParams(temperature=0).is_greedy
    assert SamplingParams(temperature=1e-9).is_greedy, "would divide the logits into infinities"
    assert not SamplingParams(temperature=0.01).is_greedy


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
def test_any_penalty_counts(name: str) -> None:
    penalty: dict[str, Any] = {name: -0.5}
    assert SamplingParams(**penalty).has_penalties
    assert SamplingParams(repeat_penalty=1.1).has_penalties


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("inf")},
        {"temperature": float("nan")},
        {"top_p": 1.1},
        {"top_p": -0.1},
        {"top_k": -1},
        {"top_k": 2**31},
        {"min_p": 1.5},
        {"presence_penalty": float("nan")},
        {"frequency_penalty": float("inf")},
        {"repeat_penalty": 0},
        {"seed": -1},
        {"seed": 2**63},
    ],
)
def test_what_no_sampler_can_honour_is_refused(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(ValueError, match=name):
        SamplingParams(**wrong)


def test_a_bias_is_finite() -> None:
    with pytest.raises(ValueError, match="logit_bias"):
        SamplingParams(logit_bias=[(1, float("inf"))])
