"""The numbers and texts at the beginning of a GGUF file, read without a library and without its tensors.

For estimates: whatever is wrong with the file is told by the engine that loads it.
"""

import struct
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

Number = int | float | bool
Value = Number | str | list[Number]

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_KEYS = 10_000
_LONGEST_STRING = 1 << 20
_LONGEST_ARRAY = 1 << 22
_MOST_LAYERS = 1024
"""An array with a number for each layer is no longer than this; longer ones are passed over."""


def read(path: Path, wanted: Collection[str]) -> dict[str, Value]:
    """Return those metadata that are there, by the ends of their names; reading stops where the tokenizer begins.

    Raises:
        ValueError: the file is no GGUF file of a version that is known, or its header is cut off.
        OSError: it cannot be read.
    """
    found: dict[str, Value] = {}
    with path.open("rb") as file:
        if file.read(4) != b"GGUF" or _number(file, "I") not in (2, 3):
            raise ValueError("not a GGUF file of version 2 or 3")
        _tensors, keys = _number(file, "Q"), _number(file, "Q")
        for _ in range(min(int(keys), _MOST_KEYS)):
            name = _string(file)
            if name.startswith("tokenizer."):
                break  # long lists, and nothing of the model's shape after them
            kind = int(_number(file, "I"))
            value = _value(file, kind)
            ending = next((end for end in wanted if name.endswith(end)), None)
            if ending is not None and value is not None:
                found.setdefault(ending, value)
            if len(found) == len(wanted):
                break
    return found


def _value(file: BinaryIO, kind: int) -> Value | None:
    """Read a value; of an array of texts, or a long one, nothing but its end."""
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        return _array(file)
    return _number(file, _format(kind))


def _array(file: BinaryIO) -> list[Number] | None:
    kind, count = int(_number(file, "I")), int(_number(file, "Q"))
    if count > _LONGEST_ARRAY:
        raise ValueError("an array is too long")
    if kind == _STRING:
        for _ in range(count):
            file.seek(_length(file), 1)
        return None
    form = _format(kind)
    if count > _MOST_LAYERS:
        file.seek(count * struct.calcsize(f"<{form}"), 1)
        return None
    return [_number(file, form) for _ in range(count)]


def _format(kind: int) -> str:
    if kind not in _FORMATS:
        raise ValueError(f"metadata of an unknown type: {kind}")
    return _FORMATS[kind]


def _string(file: BinaryIO) -> str:
    return _take(file, _length(file)).decode("utf-8", "replace")


def _length(file: BinaryIO) -> int:
    length = int(_number(file, "Q"))
    if length > _LONGEST_STRING:
        raise ValueError("a text is too long")
    return length


def _number(file: BinaryIO, form: str) -> Number:
    number: Number = struct.unpack(f"<{form}", _take(file, struct.calcsize(f"<{form}")))[0]
    return number


def _take(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise ValueError("the header is cut off")
    return data
