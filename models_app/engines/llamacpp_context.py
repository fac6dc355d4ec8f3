"""A llama.cpp context as slots: what `scheduler.SlotScheduler` asks of it, with the rules that make it repeatable.

Equal journals give equal bits only if the same kernels see the same rows in the same order. Hence, here: the KV
cache has a stream of its own for each sequence (not unified), flash attention is on, a prompt is prefilled alone
and in fixed chunks, and a decode has rows 0 to N-1 for sequences 0 to N-1 without a gap, because llama.cpp would
silently split it into several at every gap.
"""

import ctypes
import hashlib
import json
import mmap
from collections.abc import Callable, Sequence
from typing import Any

from models_app.engines import chunks, grammar, llamacpp, memory
from models_app.engines.base import DecodeError, GenerateRequest, LoadError, ModelSpec
from models_app.engines.llamacpp_sampler import Sampler
from models_app.engines.sampling import SAMPLER_VERSION
from models_app.engines.scheduler import SlotScheduler
from models_app.engines.thread_choice import ThreadChoice, Threads

PREFILL_CHUNK = 64
"""Tokens of one prefill decode; see `chunks`. Part of the fingerprint: other borders give other bits."""

_MOST_ROWS = chunks.largest(PREFILL_CHUNK)

_FLASH_ATTENTION = 1
_ABORTED = 2
_HOLE = 0
"""The token of a row without a sequence."""


class SlotContext:
    """A loaded model and the KV cache of each slot. Belongs to one thread, but for `abort`."""

    def __init__(self, spec: ModelSpec, on_progress: Callable[[float], None]) -> None:
        lib = self._lib = llamacpp.library()
        self.slots = spec.slots
        self.context_length = spec.context_length
        self.prefill_chunk = PREFILL_CHUNK
        self._threads = Threads(spec.threads)
        self._threads_set = self._threads.settled
        self.lengths = [0] * spec.slots
        """Tokens in the cache of each slot."""

        self._model = llamacpp.load_model(spec.path, on_progress=on_progress)
        self.vocabulary = llamacpp.Vocabulary(self._model)
        self._grammars = grammar.Compiler(self.vocabulary)
        params = self._context_params()
        with memory.zero_pages_released():
            self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            lib.llama_model_free(self._model)
            raise LoadError("llama.cpp cannot make a context of that size", "context_not_created")
        self._cache = lib.llama_get_memory(self._context)
        self._prefill_batch = lib.llama_batch_init(_MOST_ROWS, 0, 1)
        self._decode_batch = self._make_decode_batch()
        self._abort_flag = self._install_abort_flag()
        self.fingerprint = self._fingerprint_of(spec, params)

    @property
    def threads(self) -> dict[str, int]:
        """How many threads compute what; see `thread_choice`."""
        return self._threads.info()

    def prefill(self, slot: int, tokens: Sequence[int], *, last: bool) -> bool:
        """Append one chunk of a prompt to the slot's cache; the `last` one leaves logits in its last row.

        Returns False if `abort` broke it off: the slot is empty then.
        """
        batch = self._prefill_batch
        start = self.lengths[slot]
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row] = token
            batch.pos[row] = start + row
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = slot
            batch.logits[row] = False
        batch.logits[len(tokens) - 1] = last
        # For each token, chunks of any length take about the same time, as long as they are no short rest.
        status = self._compute(
            batch, self._threads.of_prefill(), comparable=2 * len(tokens) >= PREFILL_CHUNK, rows=1, units=len(tokens)
        )
        if status == _ABORTED:
            self.clear(slot)
            return False
        self._check(status)
        self.lengths[slot] += len(tokens)
        return True

    def decode(self, rows: Sequence[int | None], *, logits: bool) -> None:
        """Feed one token to each of the first `len(rows)` slots, `None` to leave a slot as it is.

        A slot left alone has a row all the same, whose cell is taken out of its cache again. The row count decides
        the kernels, also of the output: with `logits` every row has them, without it none, which is faster.
        """
        batch = self._decode_batch
        tokens, positions, outputs = batch.token, batch.pos, batch.logits
        for slot, token in enumerate(rows):
            tokens[slot] = _HOLE if token is None else token
            positions[slot] = self.lengths[slot]
            outputs[slot] = logits
        batch.n_tokens = len(rows)
        choice = self._threads.of_decode(len(rows), self.lengths[0])
        status = self._compute(batch, choice, comparable=logits, rows=len(rows))
        for slot, token in enumerate(rows):
            if token is None:
                self._lib.llama_memory_seq_rm(self._cache, slot, self.lengths[slot], -1)
            elif status == 0:
                self.lengths[slot] += 1
        self._check(status)

    def sampler(self, request: GenerateRequest) -> Sampler:
        """A sampler for one sequence. It is read after a decode, for a row with logits."""
        return Sampler(
            self._lib,
            self._context,
            self.vocabulary,
            self.context_length,
            request.sampling,
            None if request.grammar is None else self._grammars.start(request.grammar),
            request.top_logprobs,
        )

    def clear(self, slot: int) -> None:
        """Empty the slot's cache."""
        self._lib.llama_memory_seq_rm(self._cache, slot, -1, -1)
        self.lengths[slot] = 0

    def save(self, slot: int) -> mmap.mmap:
        """A copy of the slot's cache, about 23 kB a token for a model of 135 million parameters.

        In memory that goes back to the system when the copy is closed.
        """
        size = self._lib.llama_state_seq_get_size(self._context, slot)
        state = mmap.mmap(-1, size)
        copied = self._lib.llama_state_seq_get_data(
            self._context, ctypes.byref(ctypes.c_uint8.from_buffer(state)), size, slot
        )
        if copied != size:
            raise DecodeError(f"llama.cpp copied {copied} of {size} bytes of a cache")
        return state

    def restore(self, slot: int, state: bytes | mmap.mmap, length: int) -> bool:
        """Fill an empty slot with the first `length` tokens of a saved cache; False, and empty, where it cannot.

        A recurrent model cannot forget its last tokens, and a smaller context has no room for all of them.
        """
        buffer: Any = (
            ctypes.c_char_p(state) if isinstance(state, bytes) else (ctypes.c_char * len(state)).from_buffer(state)
        )
        data = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_uint8))
        if not self._lib.llama_state_seq_set_data(
            self._context, data, len(state), slot
        ) or not self._lib.llama_memory_seq_rm(self._cache, slot, length, -1):
            self.clear(slot)
            return False
        self.lengths[slot] = length
        return True

    def abort(self) -> None:
        """Break off the prefill that is running, from any thread, within one operation of its graph."""
        llamacpp.silence(True)
        self._abort_flag[0] = b"\x01"

    def rearm(self) -> None:
        """Forget an `abort`. Until then every computation would be broken off."""
        self._abort_flag[0] = b"\x00"
        llamacpp.silence(False)

    def close(self) -> None:
        """Free everything."""
        self._grammars.close()
        self._lib.llama_batch_free(self._prefill_batch)
        self._lib.llama_batch_free(self._decode_batch)
        self._lib.llama_free(self._context)
        self._lib.llama_model_free(self._model)

    def _context_params(self) -> Any:
        params = self._lib.llama_context_default_params()
        params.n_ctx = self.context_length * self.slots
        params.n_seq_max = self.slots
        params.n_batch = params.n_ubatch = max(_MOST_ROWS, self.slots)
        params.n_outputs_max = self.slots  # or llama.cpp keeps logits for every row of a chunk: 12 MiB here
        params.n_threads = params.n_threads_batch = self._threads.settled
        params.flash_attn_type = _FLASH_ATTENTION
        params.kv_unified = False
        params.no_perf = True
        return params

    def _make_decode_batch(self) -> Any:
        batch = self._lib.llama_batch_init(self.slots, 0, 1)
        for slot in range(self.slots):
            batch.n_seq_id[slot] = 1
            batch.seq_id[slot][0] = slot
        return batch

    def _install_abort_flag(self) -> Any:
        """Have llama.cpp look at two bytes of ours between the operations of a graph.

        Its callback is `bool (void *)`. C's strlen, given those bytes, answers 0 or 1 without Python's lock, which a
        callback in Python would need a thousand times in every decode.
        """
        flag = ctypes.create_string_buffer(2)
        callback = ctypes.cast(ctypes.CDLL(None).strlen, self._lib.ggml_abort_callback)
        self._lib.llama_set_abort_callback(self._context, callback, ctypes.cast(flag, ctypes.c_void_p))
        return flag

    def _fingerprint_of(self, spec: ModelSpec, params: Any) -> str:
        """Everything that decides the bits, except what the journal itself keeps."""
        parts = {
            "engine": spec.engine,
            "digest": spec.digest,
            "library": self._lib.llama_version().decode(),
            "build": self._lib.llama_print_system_info().decode(),
            "use_extra_bufts": bool(self._lib.llama_model_default_params().use_extra_bufts),
            "kv_unified": bool(params.kv_unified),
            "flash_attention": params.flash_attn_type,
            "kv_types": [params.type_k, params.type_v],
            "threads": self._threads.settled,
            "gpu_layers": llamacpp.gpu_layers(),
            "prefill_chunk": [PREFILL_CHUNK, _MOST_ROWS],
            "sampler": SAMPLER_VERSION,
            "grammar": grammar.version(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def _compute(self, batch: Any, choice: ThreadChoice, *, comparable: bool, rows: int, units: int = 1) -> int:
        """Return llama.cpp's status; `comparable` computations let the choice learn from the time of each unit."""
        threads = choice.begin(rows) if comparable else choice.threads
        if threads != self._threads_set:
            self._threads_set = threads
            self._lib.llama_set_n_threads(self._context, threads, threads)
        status: int = self._lib.llama_decode(self._context, batch)
        if comparable and status == 0:
            choice.end(units)
        return status

    def _check(self, status: int) -> None:
        if status != 0:
            raise DecodeError(f"llama_decode returned {status}")


def load(spec: ModelSpec, on_progress: Callable[[float], None]) -> SlotScheduler:
    """Load a GGUF model as an engine; `LoadError` where that fails."""
    return SlotScheduler(SlotContext(spec, on_progress), spec.prefix_bytes)
