"""Folders of safetensors with their configuration and tokenizer: EXL2, GPTQ, or unquantised."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from models_app.formats.description import Description, Unreadable, count, text

_LARGEST_JSON = 16 << 20
_QUANTIZED = ("exl2", "gptq")
_NAMES = {"F16": "F16", "BF16": "BF16", "F32": "F32"}


def describe(folder: Path) -> Description:
    """Read what a folder says about its model.

    Raises:
        Unreadable: something is missing, damaged, or of a kind that no engine here takes.
    """
    config = read_json(folder / "config.json")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        raise Unreadable("It has no tokenizer: neither tokenizer.json nor tokenizer.model.")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise Unreadable("It has no *.safetensors file.")
    _check_index(folder, {file.name for file in weights})
    shapes: dict[str, tuple[list[int], str]] = {}
    for file in weights:
        shapes |= _tensors(file)
    quantized = config.get("quantization_config") or {}
    if not isinstance(quantized, dict):
        raise Unreadable("The quantization_config of its config.json is no object.")
    card = _model_card(folder)
    architectures = config.get("architectures")
    named = architectures[0] if isinstance(architectures, list) and architectures else config.get("model_type")
    return Description(
        engine="exllamav2",
        format="exl2" if quantized.get("quant_method") == "exl2" else "safetensors",
        architecture=text(named)[:50],
        trained_context_length=count(config, "max_position_embeddings"),
        parameter_count=_parameters(shapes),
        quantization=_quantization(quantized, shapes),
        license=text(card.get("license")),
        base_model=text(card.get("base_model") or config.get("_name_or_path")),
        has_chat_template=_has_template(folder),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds.

    Raises:
        Unreadable: there is none.
    """
    if not path.is_file():
        raise Unreadable(f"It has no {path.name}.")
    if path.stat().st_size > _LARGEST_JSON:
        raise Unreadable(f"Its {path.name} is larger than any model's.")
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"Its {path.name} is no JSON: {text(error)}") from error
    if not isinstance(found, dict):
        raise Unreadable(f"Its {path.name} is no JSON object.")
    return found


def _check_index(folder: Path, there: set[str]) -> None:
    for index in folder.glob("*.safetensors.index.json"):
        named = read_json(index).get("weight_map")
        if not isinstance(named, dict):
            raise Unreadable(f"Its {index.name} has no weight_map.")
        if missing := sorted({text(name) for name in named.values()} - there):
            raise Unreadable(f"Its {index.name} names {missing[0]}, which is not there.")


def _tensors(file: Path) -> dict[str, tuple[list[int], str]]:
    """Return shape and type of each tensor; that header and length agree is seen to by the package."""
    with file.open("rb") as opened:
        if opened.read(4) == b"GGUF":
            raise Unreadable(f"{file.name} is a GGUF file, though its name says safetensors.")
    try:
        with safe_open(file, framework="numpy") as tensors:
            return {
                name: (tensors.get_slice(name).get_shape(), tensors.get_slice(name).get_dtype())
                for name in tensors.keys()  # noqa: SIM118 - it is no dictionary
            }
    except (SafetensorError, OSError) as error:
        raise Unreadable(f"{file.name} is no whole safetensors file: {text(error)}") from error


def _parameters(shapes: dict[str, tuple[list[int], str]]) -> int:
    """Count weights, also those that are packed several to a number."""
    total = 0
    for name, (shape, _) in shapes.items():
        layer, _, kind = name.rpartition(".")
        if kind in ("q_weight", "qweight"):
            # EXL2 tells by the permutation of its inputs how many there are, GPTQ has them in groups' indices.
            inputs = shapes.get(f"{layer}.q_invperm") or shapes.get(f"{layer}.g_idx")
            total += (inputs[0][0] if inputs else shape[0]) * shape[-1]
        elif kind in ("weight", "bias"):
            size = 1
            for length in shape:
                size *= length
            total += size
    return total


def _quantization(quantized: dict[str, Any], shapes: dict[str, tuple[list[int], str]]) -> str:
    method = quantized.get("quant_method")
    if method:
        if method not in _QUANTIZED:
            raise Unreadable(f"It is quantised by {text(method)!r}; {' and '.join(_QUANTIZED)} can be loaded.")
        return text(f"{str(method).upper()} {quantized.get('bits', '')}")
    types = Counter(kind for _, kind in shapes.values())
    most = types.most_common(1)[0][0] if types else ""
    return _NAMES.get(most, text(most))


def _has_template(folder: Path) -> bool:
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    path = folder / "tokenizer_config.json"
    return path.is_file() and bool(read_json(path).get("chat_template"))


def _model_card(folder: Path) -> dict[str, str]:
    """Return the one-line entries at the head of a README, where people state the licence."""
    path = folder / "README.md"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.read(1 << 16).splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    head = lines[1 : lines.index("---", 1)] if "---" in lines[1:] else []
    pairs = (line.split(":", 1) for line in head if ":" in line and line[:1].isalpha())
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}
