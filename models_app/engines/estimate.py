"""How much memory a model will take, estimated from its files before anything of it is loaded."""

import importlib.util
from functools import lru_cache
from pathlib import Path

from models_app import sources
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
        size = sum(path.with_name(part).stat().st_size for part in sources.parts_of(path.name))
    except OSError:
        return 0  # the engine says it better
    if offloads():
        return spec.prefix_bytes + _PROCESS
    return size + cache_bytes(path, spec.context_length * spec.slots) + spec.prefix_bytes + _PROCESS


def cache_bytes(path: Path, tokens: int) -> int:
    """Bytes of a KV cache of so many tokens, and of the buffers to compute with; 0 if the file does not say."""
    try:
        found = gguf_header.read(path, (*_KEYS, *_OPTIONAL))
        layers, width, heads, inner = (_of_layers(found[key]) for key in _KEYS)
        kv_heads = _of_layers(found.get(".attention.head_count_kv", heads))
        # One number for all layers, or one for each: layers of another kind than attention have no cache.
        all_kv_heads = kv_heads[0] * layers[0] if len(kv_heads) == 1 else sum(kv_heads)
        head_width = width[0] // max(heads)
        key_width, value_width = (
            _of_layers(found.get(f".attention.{name}_length", head_width))[0] for name in ("key", "value")
        )
    except (OSError, ValueError, LookupError, ArithmeticError):
        return 0
    cache = all_kv_heads * (key_width + value_width) * _BYTES_OF_A_HALF * tokens
    computing = _PREFILL_ROWS * (_ROWS_OF_STATE * width[0] + 2 * max(inner)) * 4
    return max(0, cache + computing)


def _of_layers(value: gguf_header.Value | list[int]) -> list[int]:
    """Return a number, or that of each layer; ``ValueError`` for anything else."""
    return [int(number) for number in (value if isinstance(value, list) else [value])]


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
