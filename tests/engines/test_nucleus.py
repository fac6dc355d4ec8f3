"""The likeliest tokens that make up top_p, as llama.cpp itself finds them among real logits."""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from models_app.engines import llamacpp
from models_app.engines.base import ModelSpec
from models_app.engines.llamacpp import Tokenizer
from models_app.engines.llamacpp_context import SlotContext
from models_app.engines.logit_sampler import nucleus
from tests.engines.driving import chat_prompt

Logits = NDArray[np.float32]


@pytest.fixture(scope="module")
def real(spec: ModelSpec, tokenizer: Tokenizer) -> Iterator[list[Logits]]:
    """What the model thinks of some beginnings: a sure one, an open one, and one that makes no sense."""
    context = SlotContext(spec, lambda _progress: None)
    lib = llamacpp.library()
    found = []
    for prompt in (chat_prompt(tokenizer, "Count to ten."), chat_prompt(tokenizer, "Name an animal."), [500, 7, 9000]):
        context.clear(0)
        context.prefill(0, prompt, last=True)
        pointer = lib.llama_get_logits_ith(context._context, len(prompt) - 1)
        found.append(np.ctypeslib.as_array(pointer, (context.vocabulary.size,)).copy())
    yield found
    context.close()


def _by_llama_cpp(logits: Logits, top_p: float) -> list[int]:
    lib = llamacpp.library()
    candidates = (lib.llama_token_data * len(logits))()
    for token, logit in enumerate(logits.tolist()):
        candidates[token].id, candidates[token].logit = token, logit
    array = lib.llama_token_data_array(data=candidates, size=len(logits), selected=-1, sorted=False)
    sampler = lib.llama_sampler_init_top_p(top_p, 1)
    lib.llama_sampler_apply(sampler, ctypes.byref(array))
    lib.llama_sampler_free(sampler)
    return [array.data[place].id for place in range(array.size)]


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.9, 0.99])
def test_it_is_the_set_that_llama_cpp_cuts_out(real: list[Logits], top_p: float) -> None:
    for logits in real:
        mine, theirs = nucleus(logits, top_p).tolist(), _by_llama_cpp(logits, top_p)
        # llama.cpp adds tens of thousands of small numbers one by one, and rounds each time: its border lies elsewhere.
        assert abs(len(mine) - len(theirs)) <= max(1, len(theirs) // 50)
        common = min(len(mine), len(theirs))
        assert set(mine[: common - 1]) - set(theirs) == set()
        assert logits[mine].tolist() == sorted(logits[mine].tolist(), reverse=True)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.99])
def test_it_is_no_token_too_long_or_too_short(real: list[Logits], top_p: float) -> None:
    for logits in real:
        weights = np.exp(logits.astype(np.float64) - logits.max())
        probabilities = weights / weights.sum()
        found = probabilities[nucleus(logits, top_p)]
        assert found.sum() >= top_p - 1e-6
        assert found[:-1].sum() < top_p + 1e-6


def test_one_token_at_least_is_left() -> None:
    assert nucleus(np.array([0, 5, 5, -np.inf], np.float32), 0.0).tolist() == [1]
    assert nucleus(np.array([-3, 90, 5], np.float32), 0.999).tolist() == [1]


def test_of_a_flat_distribution_as_many_are_left_as_make_it_up() -> None:
    assert nucleus(np.zeros(1000, np.float32), 0.25).tolist() == list(range(250))
