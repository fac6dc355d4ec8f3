"""How llama.cpp chooses the tokens of one sequence: bias, penalties, filters, temperature, draw; before it, the mask.

Only the tokens that the grammar allows become candidates, so that nothing that follows can choose another one. What
would cost llama.cpp a look at every token of the vocabulary one by one, the most likely token and the likeliest that
make up `top_p`, is found by numpy.
"""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models_app.engines import grammar, logprobs
from models_app.engines.grammar import Matcher
from models_app.engines.llamacpp import Vocabulary
from models_app.engines.logit_sampler import nucleus
from models_app.engines.logprobs import TokenLogprob
from models_app.engines.sampling import SamplingParams, seed_at


class Sampler:
    """Chooses the tokens of one sequence."""

    def __init__(
        self,
        lib: Any,
        context: Any,
        vocabulary: Vocabulary,
        window: int,
        params: SamplingParams,
        matcher: Matcher | None = None,
        top_logprobs: int | None = None,
    ) -> None:
        self.last_logprob: TokenLogprob | None = None
        """How likely the token that was chosen last was, and which were likelier; where `top_logprobs` asks for it."""

        self._lib = lib
        self._context = context
        self._vocabulary = vocabulary
        self._params = params
        self._matcher = matcher
        self._top_logprobs = top_logprobs
        self._is_plain = not (params.logit_bias or params.has_penalties or matcher)
        # What comes before top_p would have to be done before it here as well.
        self._cuts_nucleus = self._is_plain and params.top_p < 1 and params.top_k == 0
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        if params.logit_bias:
            pairs = [lib.llama_logit_bias(token, bias) for token, bias in params.logit_bias]
            biases = (lib.llama_logit_bias * len(pairs))(*pairs)
            self._add(lib.llama_sampler_init_logit_bias(vocabulary.size, len(pairs), biases))
        if params.has_penalties:
            self._add(
                lib.llama_sampler_init_penalties(
                    vocabulary.size,
                    window,
                    params.repeat_penalty,
                    params.frequency_penalty,
                    params.presence_penalty,
                )
            )
        if params.is_greedy:
            self._add(lib.llama_sampler_init_greedy())
            return
        if params.top_k > 0:
            self._add(lib.llama_sampler_init_top_k(params.top_k))
        if params.top_p < 1 and not self._cuts_nucleus:
            self._add(lib.llama_sampler_init_top_p(params.top_p, 1))
        if params.min_p > 0:
            self._add(lib.llama_sampler_init_min_p(params.min_p, 1))
        self._add(lib.llama_sampler_init_temp(params.temperature))
        self._filters: int = lib.llama_sampler_chain_n(self._chain)

    def sample(self, row: int, position: int) -> int:
        """Choose the token at `position` (0 is the first generated one) from the logits of a decode's `row`.

        Raises:
            GrammarError: see `Matcher.mask`.
        """
        token = self._choose(row, position)
        if self._matcher is not None:
            self._matcher.accept(token)
            self._matcher.prepare()
        if self._top_logprobs is not None:
            self.last_logprob = logprobs.of(self._logits(row), token, self._top_logprobs, self._vocabulary)
        return token

    def accept(self, token: int) -> None:
        """Take note of a token that was chosen in an earlier run."""
        self._lib.llama_sampler_accept(self._chain, token)
        if self._matcher is not None:
            self._matcher.accept(token)

    def close(self) -> None:
        """Free the chain."""
        self._lib.llama_sampler_free(self._chain)

    def _choose(self, row: int, position: int) -> int:
        if self._params.is_greedy:
            if self._is_plain:
                return int(self._logits(row).argmax())
        else:
            self._reseed(seed_at(self._params.seed, position))
        if self._matcher is not None:
            return self._choose_among(row, grammar.allowed_tokens(self._matcher.mask(), self._vocabulary.size))
        if self._cuts_nucleus:
            return self._choose_among(row, nucleus(self._logits(row), self._params.top_p))
        return int(self._lib.llama_sampler_sample(self._chain, self._context, row))  # accepts it, too

    def _choose_among(self, row: int, tokens: NDArray[np.intp]) -> int:
        # Laid out as llama_token_data.
        candidates = np.zeros(len(tokens), np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)]))
        candidates["id"] = tokens
        candidates["logit"] = self._logits(row)[tokens]
        pointer = candidates.ctypes.data_as(ctypes.POINTER(self._lib.llama_token_data))
        array = self._lib.llama_token_data_array(data=pointer, size=len(tokens), selected=-1, sorted=False)
        self._lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        token = int(array.data[array.selected].id)
        self._lib.llama_sampler_accept(self._chain, token)
        return token

    def _logits(self, row: int) -> NDArray[np.float32]:
        """The model's own logits of a row, where llama.cpp has them; nothing here writes to them."""
        first = self._lib.llama_get_logits_ith(self._context, row)
        buffer: Any = (ctypes.c_float * self._vocabulary.size).from_address(ctypes.addressof(first.contents))
        return np.frombuffer(buffer, np.float32)

    def _add(self, sampler: Any) -> None:
        self._lib.llama_sampler_chain_add(self._chain, sampler)

    def _reseed(self, seed: int) -> None:
        """Put a fresh draw at the end of the chain: it has no other way to be given a seed."""
        lib = self._lib
        if lib.llama_sampler_chain_n(self._chain) > self._filters:
            lib.llama_sampler_free(lib.llama_sampler_chain_remove(self._chain, self._filters))
        self._add(lib.llama_sampler_init_dist(seed))
