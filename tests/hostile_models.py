"""Files that claim to be models: cut off, mislabelled, or made to take whoever reads them down."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

from tests import tiny_models

_STRING, _ARRAY, _UINT32 = 8, 9, 4


def header(fields: int = 0, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, fields)


def _name(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _field(name: str, kind: int, value: bytes) -> bytes:
    return _name(name) + struct.pack("<I", kind) + value


def _nested(depth: int) -> bytes:
    return struct.pack("<IQ", _ARRAY, 1) * depth + struct.pack("<IQ", _UINT32, 0)


def _tensor(dimensions: list[int]) -> bytes:
    shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return _name("token_embd.weight") + shape + struct.pack("<IQ", 0, 0)


_LLAMA = _field("general.architecture", _STRING, _name("llama"))

GGUF: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "cut-in-header": (header()[:10], "cut off"),
    "safetensors": (struct.pack("<Q", 2) + b"{}", "looks like a safetensors file"),
    "pytorch": (b"PK\3\4" + b"\0" * 60, "PyTorch"),
    "countless-fields": (header(fields=2**63), "more than any model"),
    "countless-tensors": (header(tensors=2**40), "more than any model"),
    "more-fields-than-there-are": (header(fields=60_000) + _LLAMA, "cut off"),
    "lying-name": (header(fields=1) + struct.pack("<Q", 2**62) + b"x", "cut off"),
    "lying-text": (header(fields=1) + _field("general.name", _STRING, struct.pack("<Q", 2**40)), "cut off"),
    "lying-array": (header(fields=1) + _field("x", _ARRAY, struct.pack("<IQ", _UINT32, 2**60)), "cut off"),
    "lying-texts": (header(fields=1) + _field("x", _ARRAY, struct.pack("<IQ", _STRING, 2**60)), "cut off"),
    "deep-arrays": (header(fields=1) + _field("x", _ARRAY, _nested(5000)), "arrays of arrays"),
    "unknown-type": (header(fields=1) + _field("x", 99, b""), "cannot be read"),
    "many-dimensions": (header(1, 1) + _LLAMA + _tensor([1] * 1000), "dimensions"),
    "huge-tensor": (header(1, 1) + _LLAMA + _tensor([2**40, 2**40]), "cannot be read|cut off"),
    "weights-missing": (header(1, 1) + _LLAMA + _tensor([1024, 1024]), "cannot be read|cut off"),
    "no-architecture": (header(), "llama.cpp does not take it"),
}


def write_crashing(model: Path, path: Path) -> Path:
    """Write a model with more layers than llama.cpp has room for, at which it ends its process."""
    data = bytearray(model.read_bytes())
    name = b"llama.block_count"
    at = data.index(name) + len(name) + 4
    data[at : at + 4] = (600).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def _write(name: str, content: bytes | str) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def _lying_tensor(folder: Path) -> None:
    head = json.dumps({"a.weight": {"dtype": "F16", "shape": [1024], "data_offsets": [0, 2048]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"\0" * 10)


def _gguf_inside(folder: Path) -> None:
    tiny_models.write_gguf(folder / "x.gguf")
    (folder / "x.gguf").rename(folder / "model.safetensors")


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights-of-nothing": (_write("model.safetensors", b""), "no whole safetensors file"),
    "lying-header": (_write("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), "no whole safetensors file"),
    "cut-off": (_lying_tensor, "no whole safetensors file"),
    "gguf": (_gguf_inside, "is a GGUF file"),
    "no-json": (_write("config.json", "{"), "no JSON"),
    "deep-json": (_write("config.json", "[" * 200_000), "no JSON"),
    "no-object": (_write("config.json", "[]"), "no JSON object"),
    "no-number": (_write("config.json", '{"max_position_embeddings": "many"}'), "no number of tokens"),
    "other-quantisation": (_write("config.json", '{"quantization_config": {"quant_method": "awq"}}'), "awq"),
    "part-missing": (_write("model.safetensors.index.json", '{"weight_map": {"a": "b.safetensors"}}'), "b.safetensors"),
    "no-tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer"),
}
