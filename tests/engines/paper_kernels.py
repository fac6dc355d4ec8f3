"""A plugin for pytest: exllamav2's own generator without a GPU, on a model on paper in place of its kernels.

    python -m pytest -p tests.engines.paper_kernels tests/engines/test_contract*.py -k exllamav2

Needs what `requirements.txt` names, and nothing of CUDA. Configuration, tokenizer, jobs, pages, chunks of prompts,
reuse of what was read before and threads are the library's. The model writes each token that it is fed into the cache,
where the library says, and makes its logits of all that it finds there: a page that is not the right one changes them.
With LMSP_TEST_PAGED=0 the library takes its path without flash-attn.
"""

import importlib
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from models_app.engines import exllamav2, exllamav2_presence
from tests.engines.paper import drawn

_PAGE = 256
_PAGED = os.environ.get("LMSP_TEST_PAGED", "1") != "0"


def _count_match(one: Any, other: Any, most: int) -> int:
    pairs = zip(one[0].tolist(), other[0].tolist(), strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if at == most or a != b), min(most, other.shape[-1]))


def _cache_rotate(cache: Any, order: Any, _buffer: Any) -> None:
    pages = order.tolist()
    cache[pages] = cache[[*pages[1:], pages[0]]].clone()


class _Model:
    """In place of `ExLlamaV2`."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self._torch: Any = importlib.import_module("torch")

    def load_autosplit(self, cache: Any, callback: Callable[[int, int], None]) -> None:
        for layer in range(len(cache.key_states)):
            cache.key_states[layer] = self._torch.zeros(cache.shape_wk, dtype=cache.dtype)
            cache.value_states[layer] = self._torch.zeros(cache.shape_wv, dtype=cache.dtype)
        callback(1, 1)

    def forward_chunk(
        self, input_ids: Any, attn_params: Any, cache: Any, preprocess_only: bool = False, **_others: Any
    ) -> dict[str, Any]:
        rows = []
        for row, fed in enumerate(input_ids.tolist()):
            past = int(attn_params.cache_seqlens[row]) if _PAGED else attn_params.past_len
            places = self._places(attn_params, row, past + len(fed))
            for states in (cache.key_states[0], cache.value_states[-1]):
                # Half precision holds a byte exactly.
                states[0, places[past:], 0, :2] = self._torch.tensor([divmod(token, 256) for token in fed]).half()
            keys, values = (states[0, places, 0, :2].long() for states in (cache.key_states[0], cache.value_states[-1]))
            assert self._torch.equal(keys, values)
            rows.append(self._logits((keys[:, 0] * 256 + keys[:, 1]).tolist()))
        return {} if preprocess_only else {"logits": self._torch.stack(rows)}

    def unload(self) -> None:
        pass

    def _places(self, attn_params: Any, row: int, length: int) -> list[int]:
        """Where in the cache each of the first tokens of a sequence is."""
        if not _PAGED:
            return list(range(length))
        pages = attn_params.block_index[row].tolist()
        return [pages[at // _PAGE] * _PAGE + at % _PAGE for at in range(length)]

    def _logits(self, tokens: list[int]) -> Any:
        """Logits of shape (1, rows), with the library's padding."""
        rows = self.config.vocab_size
        padded = np.full((1, -(-rows // 32) * 32), -65504, np.float16)
        # Wide, so that rows that stand for no token are the likeliest now and then.
        padded[0, :rows] = drawn(tokens, rows) * 3
        return self._torch.from_numpy(padded)


def _install() -> None:
    kernels: Any = ModuleType("exllamav2_ext")
    kernels.__spec__ = ModuleSpec("exllamav2_ext", None)  # it is looked for, too
    kernels.count_match, kernels.cache_rotate = _count_match, _cache_rotate
    sys.modules["exllamav2_ext"] = kernels
    torch: Any = importlib.import_module("torch")
    library: Any = importlib.import_module("exllamav2")
    attention: Any = importlib.import_module("exllamav2.attn")
    attention.has_flash_attn = attention.has_flash_attn_with_paged = _PAGED
    library.ExLlamaV2 = _Model
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 0
    runner: Any = exllamav2.DynamicRunner
    runner._require_memory = lambda _self, _spec: None
    presence: Any = exllamav2_presence
    presence.has_gpu = lambda _root: True


_install()
