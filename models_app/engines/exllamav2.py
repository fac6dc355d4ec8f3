"""exllamav2: fp16 and EXL2 folders on an NVIDIA GPU. The only module that imports `exllamav2` and `torch`, lazily.

Written against the source of 0.3.2. Where a decision here looks odd, the reason is beside it: several of the library's
defaults are not neutral, and one of them computes wrong results.
"""

import importlib
import importlib.util
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models_app.engines import exllamav2_requests
from models_app.engines.base import LoadError, ModelSpec
from models_app.engines.exllamav2_loop import DynamicLoop, JobNews
from models_app.engines.exllamav2_requests import PositionRandom
from models_app.engines.sampling import SamplingParams
from models_app.engines.token_bytes import TokenBytes

_CHUNK = 512
"""Tokens of one round of a prefill: whole pages, and so few that a cancel need not wait long."""

_ROOM = 1 << 30
"""Bytes of the GPU for what is neither weights nor cache."""


class DynamicRunner:
    """A loaded model and its dynamic generator."""

    def __init__(self, spec: ModelSpec, on_progress: Callable[[float], None]) -> None:
        self._torch, self._library, self._generators = _import()
        has_paged_attention = bool(importlib.import_module("exllamav2.attn").has_flash_attn_with_paged)
        self.context_length = spec.context_length
        # Without pages its cache holds one sequence: others wait.
        self.slots = spec.slots if has_paged_attention else 1
        self.fingerprint = f"exllamav2-{uuid.uuid4().hex[:16]}"
        self.vocabulary = TokenBytes(Path(spec.path))
        self._jobs: dict[int, Any] = {}
        self._config = self._configure(spec, flash_attention=has_paged_attention)
        self._require_memory(spec)
        self._model = self._library.ExLlamaV2(self._config)
        per_sequence = exllamav2_requests.pages(spec.context_length)
        cache = self._library.ExLlamaV2Cache(self._model, max_seq_len=per_sequence * self.slots, lazy=True)
        self._model.load_autosplit(cache, callback=lambda done, total: on_progress(done / max(1, total)))
        self._generator = self._generators.ExLlamaV2DynamicGenerator(
            model=self._model,
            cache=cache,
            tokenizer=self._library.ExLlamaV2Tokenizer(self._config),
            # Bounded: left to itself it makes room for the logits of hundreds of sequences, 1 GB of a large vocabulary.
            max_batch_size=self.slots,
            max_chunk_size=_CHUNK,
            paged=has_paged_attention,
        )

    def start(self, key: int, tokens: Sequence[int], most: int, sampling: SamplingParams, position: int) -> None:
        """Enqueue a job."""
        job = self._generators.ExLlamaV2DynamicJob(
            input_ids=self._torch.tensor([list(tokens)], dtype=self._torch.long),
            max_new_tokens=most,
            gen_settings=self._generators.ExLlamaV2Sampler.Settings(**exllamav2_requests.settings(sampling)),
            # Texts that stop are ours to find. An end token has to be known to it, or it might hold it back as part of
            # a character that is not complete, and go on.
            stop_conditions=sorted(self.vocabulary.ends),
            identifier=key,
        )
        job.rng = PositionRandom(sampling.seed, position)
        self._jobs[key] = job
        self._generator.enqueue(job)

    def look_back(self, key: int, tokens: int) -> None:
        """Set the range of the penalties for the next token."""
        self._jobs[key].gen_settings.token_repetition_range = tokens

    def stop(self, key: int) -> None:
        """Cancel a job."""
        job = self._jobs.pop(key, None)
        if job is not None:
            self._generator.cancel(job)

    def run(self) -> list[JobNews]:
        """Iterate once. What fails here ends the process: its tasks are continued on a new one."""
        news = []
        for result in self._generator.iterate():
            key, ended = result["identifier"], bool(result["eos"])
            if result["stage"] == "prefill":
                news.append(JobNews(key, prefilled=(result["curr_progress"], result["max_progress"])))
            elif result["stage"] == "streaming":
                news.append(JobNews(key, exllamav2_requests.tokens_of(result), ended=ended))
            if ended:
                self._jobs.pop(key, None)
        return news

    def info(self) -> dict[str, Any]:
        """The devices, and what is in use of them."""
        cuda = self._torch.cuda
        return {
            "devices": [cuda.get_device_name(device) for device in range(cuda.device_count())],
            "device_bytes": sum(cuda.memory_reserved(device) for device in range(cuda.device_count())),
            "paged": self.slots > 1 or bool(self._generator.paged),
        }

    def close(self) -> None:
        """Free the GPU."""
        self._model.unload()

    def _configure(self, spec: ModelSpec, *, flash_attention: bool) -> Any:
        config = self._library.ExLlamaV2Config(spec.path)
        config.arch_compat_overrides(quiet=True)
        config.max_seq_len = exllamav2_requests.pages(spec.context_length)
        config.max_input_len = _CHUNK
        if not flash_attention:
            # Its path over PyTorch's attention applies no causal mask in a prefill: wrong results, no error.
            config.no_sdpa = True
        return config

    def _require_memory(self, spec: ModelSpec) -> None:
        config, cuda = self._config, self._torch.cuda
        weights = sum(file.stat().st_size for file in Path(spec.path).glob("*.safetensors"))
        per_token = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
        needed = weights + per_token * exllamav2_requests.pages(spec.context_length) * self.slots + _ROOM
        free = sum(cuda.mem_get_info(device)[0] for device in range(cuda.device_count()))
        if needed > free:
            raise LoadError(
                f"The model needs about {needed >> 20} MB of GPU memory, and {free >> 20} MB are free. A shorter "
                "context or fewer tasks at once need less.",
                "insufficient_memory",
            )


def _import() -> tuple[Any, Any, Any]:
    """Import PyTorch, the library and its generators; `LoadError` says what keeps them from working."""
    if importlib.util.find_spec("flash_attn") and not importlib.util.find_spec("flash_attn_2_cuda"):
        # The fourth generation has the same name, and another interface that breaks the import.
        os.environ["EXLLAMA_NO_FLASH_ATTN"] = "1"
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise LoadError("PyTorch finds no CUDA device", "engine_unavailable")
        return torch, importlib.import_module("exllamav2"), importlib.import_module("exllamav2.generator")
    except (ImportError, OSError, RuntimeError) as error:
        if isinstance(error, LoadError):
            raise
        raise LoadError(f"exllamav2 cannot be imported: {error}", "engine_unavailable") from error


def load(spec: ModelSpec, on_progress: Callable[[float], None]) -> DynamicLoop:
    """Load a folder of safetensors, EXL2 or fp16, as an engine; `LoadError` where that fails."""
    if not (Path(spec.path) / "config.json").is_file():
        raise LoadError("there is no folder of a model with a config.json", "model_file_missing")
    try:
        return DynamicLoop(DynamicRunner(spec, on_progress))
    except LoadError:
        raise
    except Exception as error:  # whatever the library asserts about a folder that it does not understand
        code = "insufficient_memory" if type(error).__name__ == "OutOfMemoryError" else "model_load_failed"
        raise LoadError(f"exllamav2 cannot load this folder: {error}", code) from error
