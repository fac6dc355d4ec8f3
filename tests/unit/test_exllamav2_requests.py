"""What exllamav2 is told of a request: everything that needs no GPU."""

import itertools
import statistics
import struct
from pathlib import Path
from typing import Any

import pytest

from models_app.engines import exllamav2_presence
from models_app.engines import exllamav2_requests as requests
from models_app.engines.base import GenerateRequest, RequestError, Resume
from models_app.engines.exllamav2_requests import PositionRandom
from models_app.engines.sampling import SamplingParams

# The fields of `ExLlamaV2Sampler.Settings` 0.3.2 whose defaults choose otherwise than a neutral sampler would.
NOT_NEUTRAL_BY_DEFAULT = {"token_repetition_penalty", "token_repetition_range", "temperature", "top_k", "top_p"}


def test_neutral_parameters_are_neutral_and_nothing_is_left_to_a_default() -> None:
    settings = requests.settings(SamplingParams())
    neutral = {"token_repetition_penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    assert settings | neutral == settings
    assert settings.keys() >= NOT_NEUTRAL_BY_DEFAULT
    assert not any(settings[name] for name in ("top_a", "tfs", "typical", "mirostat", "dry_multiplier", "skew"))


def test_every_parameter_arrives() -> None:
    params = SamplingParams(0.7, 0.9, 40, 0.05, presence_penalty=0.1, frequency_penalty=0.2, repeat_penalty=1.3)
    arrived = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "token_presence_penalty": 0.1,
        "token_frequency_penalty": 0.2,
        "token_repetition_penalty": 1.3,
    }
    assert requests.settings(params) | arrived == requests.settings(params)


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SamplingParams(temperature=1e-5)])
def test_greedy_takes_the_likeliest_alone(params: SamplingParams) -> None:
    settings = requests.settings(params)
    assert (settings["top_k"], settings["temperature"]) == (1, 1.0)


def test_a_nucleus_of_nothing_is_the_likeliest_and_not_everything() -> None:
    assert requests.settings(SamplingParams(top_p=0.0))["top_k"] == 1


def test_penalties_count_what_was_generated_and_never_the_prompt() -> None:
    assert requests.penalty_range(SamplingParams(presence_penalty=1.0), 0) == 0
    assert requests.penalty_range(SamplingParams(presence_penalty=1.0), 17) == 17
    assert requests.penalty_range(SamplingParams(), 17) == 0


def test_a_draw_depends_on_seed_and_position_and_on_nothing_before() -> None:
    whole = PositionRandom(7, 0)
    drawn = [whole.random() for _ in range(1000)]
    for cut in (0, 1, 500, 999):
        resumed = PositionRandom(7, cut)
        assert [resumed.random() for _ in range(cut, 1000)] == drawn[cut:]
    assert PositionRandom(8, 0).random() != drawn[0]
    assert 0.45 < statistics.fmean(drawn) < 0.55
    assert len(set(drawn)) > 990


def test_a_draw_is_below_one_also_in_single_precision() -> None:
    for seed, position in itertools.product(range(50), range(200)):
        number = PositionRandom(seed, position).random()
        (single,) = struct.unpack("f", struct.pack("f", number))
        assert 0 <= single == number < 1


def test_a_resume_reads_the_journal_as_part_of_its_input() -> None:
    request = GenerateRequest([1, 2, 3], max_tokens=10, resume=Resume(0, (4, 5), (0, 1)))
    assert requests.input_tokens(request) == [1, 2, 3, 4, 5]
    assert requests.most_new_tokens(request, 100) == 8
    assert requests.most_new_tokens(request, 6) == 1
    assert requests.most_new_tokens(GenerateRequest([1, 2, 3]), 100) == 97


@pytest.mark.parametrize(
    ("prompt", "code"), [([1] * 8, "context_length_exceeded"), ([50], "invalid_request"), ([-1], "invalid_request")]
)
def test_what_does_not_fit_is_refused(prompt: list[int], code: str) -> None:
    with pytest.raises(RequestError) as refusal:
        requests.check(GenerateRequest(prompt), vocabulary_size=50, context_length=8)
    assert refusal.value.code == code


class _Tensor:
    """As much of a tensor of token ids as is read."""

    def __init__(self, *ids: int) -> None:
        self._ids = list(ids)

    def flatten(self) -> "_Tensor":
        return self

    def tolist(self) -> list[int]:
        return self._ids


@pytest.mark.parametrize(
    ("result", "tokens"),
    [
        ({"eos": False}, []),
        ({"eos": False, "token_ids": _Tensor(1, 2)}, [1, 2]),
        ({"eos": True, "token_ids": _Tensor(1), "held": {"token_ids": _Tensor(2, 3)}}, [1, 2, 3]),
        ({"eos": True, "held": {"text": "\N{REPLACEMENT CHARACTER}"}}, []),
    ],
)
def test_tokens_that_were_held_back_come_with_the_end(result: dict[str, Any], tokens: list[int]) -> None:
    assert requests.tokens_of(result) == tokens


@pytest.mark.parametrize(("tokens", "whole"), [(1, 256), (256, 256), (257, 512)])
def test_a_cache_has_whole_pages(tokens: int, whole: int) -> None:
    assert requests.pages(tokens) == whole


def test_what_is_missing_is_named_the_first_thing_first(tmp_path: Path) -> None:
    say = exllamav2_presence.missing_parts
    assert "no NVIDIA GPU" in str(say(["torch"], has_gpu=False, has_compiler=False))
    assert "torch, exllamav2 not installed" in str(say(["torch", "exllamav2"], has_gpu=True, has_compiler=False))
    assert "nvcc" in str(say([], has_gpu=True, has_compiler=False))
    assert say([], has_gpu=True, has_compiler=True) is None
    assert not exllamav2_presence.has_gpu(tmp_path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert exllamav2_presence.has_gpu(tmp_path)
