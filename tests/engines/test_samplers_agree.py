"""The sampler over logits chooses as llama.cpp's does, which it shares no code with."""

import ctypes
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models_app.engines import llamacpp
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.llamacpp_sampler import Sampler
from models_app.engines.logit_sampler import distribution
from models_app.engines.sampling import SamplingParams
from tests.engines.driving import SAMPLED

_TAKEN = [3, 3, 3, 40, 41, 1000]
_ALLOWED = np.arange(3, 2000, 7)

_PENALTIES = SamplingParams(repeat_penalty=1.4, frequency_penalty=0.6, presence_penalty=0.3)


def _by_llamacpp(
    tokenizer: Tokenizer, logits: NDArray[np.float32], params: SamplingParams, allowed: NDArray[np.intp]
) -> dict[int, float]:
    """The probability of each token that llama.cpp's chain leaves."""
    lib: Any = llamacpp.library()
    # A bias of nothing: without any, some of the chain's work is done before it.
    sampler = Sampler(lib, None, tokenizer, 512, replace(params, logit_bias=[*params.logit_bias, (0, 0.0)]))
    for token in _TAKEN:
        sampler.accept(token)
    candidates = np.zeros(len(allowed), np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)]))
    candidates["id"], candidates["logit"] = allowed, logits[allowed]
    pointer = candidates.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))
    array = lib.llama_token_data_array(data=pointer, size=len(allowed), selected=-1, sorted=False)
    lib.llama_sampler_apply(sampler._chain, ctypes.byref(array))
    sampler.close()
    if params.is_greedy:
        return {int(array.data[array.selected].id): 1.0}
    scores = np.array([array.data[place].logit for place in range(array.size)])
    weights = np.exp(scores - scores.max())
    tokens = [int(array.data[place].id) for place in range(array.size)]
    return dict(zip(tokens, (weights / weights.sum()).tolist(), strict=True))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7),
        SamplingParams(top_k=20),
        SamplingParams(top_p=0.8),
        SamplingParams(top_p=0.0),
        SamplingParams(min_p=0.1, temperature=3.0),
        SamplingParams(top_p=0.9, temperature=0.2),
        _PENALTIES,
        replace(_PENALTIES, temperature=0),
        replace(_PENALTIES, temperature=0, logit_bias=[(40, 30.0), (41, 31.0)]),
        SAMPLED,
        replace(
            _PENALTIES, temperature=1.6, top_k=300, top_p=0.95, min_p=0.05, logit_bias=[(3, 9.0), (1000, -4.0), (50, 6)]
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("allowed", [None, _ALLOWED], ids=["free", "grammar"])
def test_the_same_tokens_are_left_and_as_likely(
    tokenizer: Tokenizer, params: SamplingParams, allowed: NDArray[np.intp] | None
) -> None:
    # As sharp as a model's: of thousands of candidates llama.cpp's sums in single precision would lose the last.
    logits = (np.random.default_rng(5).standard_normal(tokenizer.size) * 6).astype(np.float32)
    everything = np.arange(tokenizer.size) if allowed is None else allowed
    tokens, probabilities = distribution(logits, params, Counter(_TAKEN), allowed)
    expected = _by_llamacpp(tokenizer, logits, params, everything)
    assert sorted(expected) == tokens.tolist()
    np.testing.assert_allclose(probabilities, [expected[token] for token in tokens.tolist()], rtol=1e-3)
