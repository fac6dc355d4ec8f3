"""exllamav2: fp16 and EXL2 folders on an NVIDIA GPU. The only module that imports `exllamav2` and `torch`, lazily.

Written against the source of 0.3.2, whose development has ended. Where a decision here looks odd, the reason is beside
it: some of the library's defaults compute wrong results, and its sampler chooses otherwise than this project's.
"""

import functools
import importlib
import importlib.util
import logging
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models_app.engines.base import LoadError, ModelSpec
from models_app.engines.exllamav2_loop import Choose, DynamicLoop, Prefilled
from models_app.engines.hf_tokenizer import FolderTokenizer

_log = logging.getLogger(__name__)

_PAGE = 256
"""Tokens of a page of its cache, which is a whole number of pages."""

_CHUNK = 2 * _PAGE
"""At most so many tokens in one round of a prefill: whole pages, and so few that a cancel need not wait long."""

_AMPERE = (8, 0)
"""The first compute capability that flash-attn runs on."""

_ROOM = 1 << 30
"""Bytes of the GPU for what is neither weights nor cache."""


class DynamicRunner:
    """A loaded model and its dynamic generator."""

    def __init__(self, spec: ModelSpec, on_progress: Callable[[float], None]) -> None:
        self.vocabulary = FolderTokenizer(Path(spec.path))
        self._torch, self._library, self._generators = _import()
        self._per_sequence = whole_pages(spec.context_length)
        self._config = self._configure(spec)
        # The settings of an architecture may forbid what the library has.
        attention = importlib.import_module("exllamav2.attn")
        is_paged = attention.has_flash_attn_with_paged and not self._config.no_flash_attn
        if not is_paged:
            # Its path over PyTorch's attention applies no causal mask in a prefill: wrong results, no error.
            self._config.no_sdpa = True
        self.context_length = spec.context_length
        # Without pages its cache holds one sequence: others wait.
        self.slots = spec.slots if is_paged else 1
        self.fingerprint = f"exllamav2-{uuid.uuid4().hex[:16]}"
        self._jobs: dict[int, Any] = {}
        self._require_memory(spec)
        tokenizer = self._library.ExLlamaV2Tokenizer(self._config)
        # Tokens for which the model has no row, or the library no name, would end the process if they came.
        named = len(tokenizer.get_id_to_piece_list())
        self.vocabulary.size = min(self.vocabulary.size, self._config.vocab_size, named)
        self._model = self._library.ExLlamaV2(self._config)
        cache = self._library.ExLlamaV2Cache(self._model, max_seq_len=self._per_sequence * self.slots, lazy=True)
        self._model.load_autosplit(cache, callback=lambda done, total: on_progress(done / max(1, total)))
        self._generator = self._generators.ExLlamaV2DynamicGenerator(
            model=self._model,
            cache=cache,
            tokenizer=tokenizer,
            # Bounded: left to itself it makes room for the logits of hundreds of sequences, at eight tokens each.
            max_batch_size=self.slots,
            max_q_size=1,
            max_chunk_size=self._config.max_input_len,
            paged=is_paged,
        )

    def start(self, key: int, tokens: Sequence[int], most: int, choose: Choose) -> None:
        """Enqueue a job."""
        job = self._generators.ExLlamaV2DynamicJob(
            input_ids=self._torch.tensor([list(tokens)], dtype=self._torch.long), max_new_tokens=most, identifier=key
        )
        # In place of its own sampler. That one changes the logits where they lie before anybody can read them, and
        # knows no grammar in llguidance's form.
        job.receive_logits = functools.partial(self._sample, choose)
        self._jobs[key] = job
        self._generator.enqueue(job)

    def stop(self, key: int) -> None:
        """Cancel a job."""
        self._generator.cancel(self._jobs.pop(key))

    def run(self) -> list[Prefilled]:
        """Iterate once. What fails here ends the process: its tasks are continued on a new one."""
        prefilled = []
        for result in self._generator.iterate():
            key = result["identifier"]
            if result["stage"] == "prefill":
                prefilled.append(Prefilled(key, result["curr_progress"], result["max_progress"]))
            if result["eos"]:
                del self._jobs[key]
        return prefilled

    def _sample(self, choose: Choose, logits: Any) -> tuple[Any, None, None, None, bool]:
        """Stand in for `ExLlamaV2DynamicJob.receive_logits`.

        It is given the logits as a tensor of single precision in main memory, of shape (1, 1, rows); the model may have
        more rows than there are tokens, and up to 31 of padding follow. It returns the token as a tensor of shape
        (1, 1), what nobody has asked for (the likeliest tokens, their probabilities, that of the token), and whether
        the job is to end.
        """
        token, ends = choose(logits[0, 0, : self.vocabulary.size].numpy())
        return self._torch.tensor([[token]], dtype=self._torch.long), None, None, None, ends

    def info(self) -> dict[str, Any]:
        """The devices, and what is in use of them."""
        cuda = self._torch.cuda
        return {
            "devices": [cuda.get_device_name(device) for device in range(cuda.device_count())],
            "device_bytes": sum(cuda.memory_reserved(device) for device in range(cuda.device_count())),
            "paged": self._generator.paged,
        }

    def close(self) -> None:
        """Free the GPU."""
        self._model.unload()

    def _configure(self, spec: ModelSpec) -> Any:
        config = self._library.ExLlamaV2Config(spec.path)
        config.arch_compat_overrides(quiet=True)
        config.max_seq_len = self._per_sequence
        # It takes the shorter of both itself, and then refuses a generator that was told the longer.
        config.max_input_len = min(_CHUNK, self._per_sequence)
        return config

    def _require_memory(self, spec: ModelSpec) -> None:
        config, cuda = self._config, self._torch.cuda
        weights = sum(file.stat().st_size for file in Path(spec.path).glob("*.safetensors"))
        per_token = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
        needed = weights + per_token * self._per_sequence * self.slots + _ROOM
        free = sum(cuda.mem_get_info(device)[0] for device in range(cuda.device_count()))
        if needed > free:
            raise LoadError(
                f"The model needs about {needed >> 20} MB of GPU memory, and {free >> 20} MB are free. A shorter "
                "context or fewer tasks at once need less.",
                "insufficient_memory",
            )


def whole_pages(tokens: int) -> int:
    """Tokens of the whole pages that hold so many."""
    return -(-tokens // _PAGE) * _PAGE


def _import() -> tuple[Any, Any, Any]:
    """Import PyTorch, the library and its generators; `LoadError` says what keeps them from working."""
    if importlib.util.find_spec("flash_attn") and not importlib.util.find_spec("flash_attn_2_cuda"):
        # The fourth generation has the same name, and another interface that breaks the import.
        os.environ["EXLLAMA_NO_FLASH_ATTN"] = "1"
    # PyTorch compiles the kernels by a program, ninja, that lies beside this Python and need not be in the path.
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(Path(sys.executable).parent))))
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise LoadError("PyTorch finds no CUDA device", "engine_unavailable")
        if any(torch.cuda.get_device_capability(device) < _AMPERE for device in range(torch.cuda.device_count())):
            # It would say that flash-attn cannot run here, and use it.
            os.environ["EXLLAMA_NO_FLASH_ATTN"] = "1"
        return torch, importlib.import_module("exllamav2"), importlib.import_module("exllamav2.generator")
    except (ImportError, OSError, RuntimeError) as error:
        if isinstance(error, LoadError):
            raise
        _log.exception("exllamav2 cannot be imported")  # of a compiler, pages
        reason = str(error).partition("\n")[0]
        raise LoadError(f"exllamav2 cannot be imported: {reason}", "engine_unavailable") from error


def load(spec: ModelSpec, on_progress: Callable[[float], None]) -> DynamicLoop:
    """Load a folder of safetensors, EXL2 or fp16, as an engine; `LoadError` where that fails."""
    if not (Path(spec.path) / "config.json").is_file():
        raise LoadError("there is no folder of a model with a config.json", "model_file_missing")
    try:
        return DynamicLoop(DynamicRunner(spec, on_progress))
    except LoadError:
        raise
    except Exception as error:  # whatever the library asserts about a folder that it does not understand
        _log.exception("exllamav2 cannot load a model")
        is_full = type(error).__name__ == "OutOfMemoryError" or "Insufficient VRAM" in str(error)
        reason = str(error).replace(spec.path, "the folder")
        code = "insufficient_memory" if is_full else "model_load_failed"
        raise LoadError(f"exllamav2 cannot load this model: {reason}", code) from error
