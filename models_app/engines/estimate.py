"""How much memory a model will take, estimated from its files before anything of it is loaded."""

import importlib.util
from functools import lru_cache
from pathlib import Path

from models_app.engines import gguf_header
from models_app.engines.base import ModelSpec

_MIB = 1 << 20
_PROCESS = 64 * _MIB
"""The interpreter, the library, and what the rest of the model's computation keeps beside its cache."""

_TORCH_PROCESS = 3 << 30
"""An interpreter with PyTorch and a CUDA context; the model itself goes to the GPU."""

_BYTES_OF_A_HALF = 2
_PREFILL_ROWS = 64
_ROWS_OF_STATE = 8
"""Vectors as wide as the model that a computation keeps for each of its rows, roughly: measured, and rounded up."""

_KEYS = (".block_count", ".embedding_length", ".attention.head_count", ".feed_forward_length")
_OPTIONAL = (".attention.head_count_kv", ".attention.key_length", ".attention.value_length")
_GPU_LIBRARIES = ("*cuda*", "*hip*", "*vulkan*", "*sycl*")


def needed_bytes(spec: ModelSpec) -> int:
    """Bytes of main memory for weights, the KV cache of every slot filled to the end, kept prefixes, and computing.

    A file whose header cannot be read is taken for its size alone; 0 if nothing is known.
    """
    if spec.engine != "llamacpp":
        return _TORCH_PROCESS if spec.engine == "exllamav2" else 0
    path = Path(spec.path)
    try:
        size = path.stat().st_size
    except OSError:
        return 0  # the engine says it better
    if offloads():
        return spec.prefix_bytes + _PROCESS
    return size + cache_bytes(path, spec.context_length * spec.slots) + spec.prefix_bytes + _PROCESS


def cache_bytes(path: Path, tokens: int) -> int:
    """Bytes of a KV cache of so many tokens, and of the buffers to compute with; 0 if the file does not say."""
    try:
        found = gguf_header.read(path, (*_KEYS, *_OPTIONAL))
        layers, width, heads, inner = (int(found[key]) for key in _KEYS)
        kv_heads = int(found.get(".attention.head_count_kv", heads))
        key_width = int(found.get(".attention.key_length", width // heads))
        value_width = int(found.get(".attention.value_length", width // heads))
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return 0
    cache = layers * kv_heads * (key_width + value_width) * _BYTES_OF_A_HALF * tokens
    computing = _PREFILL_ROWS * (_ROWS_OF_STATE * width + 2 * inner) * 4
    return max(0, cache + computing)


@lru_cache
def offloads() -> bool:
    """Whether the llama.cpp that is installed was built for a GPU, told by its files: models go there then."""
    found = importlib.util.find_spec("llama_cpp")
    directories = found.submodule_search_locations if found else None
    return any(
        next(Path(directory, "lib").glob(f"libggml-{pattern}"), None) is not None
        for directory in directories or ()
        for pattern in _GPU_LIBRARIES
    )
