"""What is read from a model's files, and how they are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 200


class Unreadable(Exception):
    """A file is not what it should be; the message is a sentence about the file."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a model's files say. Texts are empty and counts 0 where they say nothing.

    Attributes:
        trained_context_length: tokens.
        parameter_count: weights, however few bits each has.
        quantization: as people name it, such as ``Q4_K_M`` or ``EXL2 4.0``.
    """

    engine: str
    format: str
    architecture: str
    trained_context_length: int
    parameter_count: int
    quantization: str
    license: str
    base_model: str
    has_chat_template: bool


def text(value: Any) -> str:
    """Return a value that a file has given as one short printable line."""
    if isinstance(value, list):
        value = ", ".join(str(entry) for entry in value[:8])
    line = "".join(character if character.isprintable() else " " for character in str(value or "")[: 4 * _LONGEST])
    return " ".join(line.split())[:_LONGEST]


def count(fields: Mapping[str, Any], name: str) -> int:
    """Return a number of tokens that a file has given; 0 where it has not.

    Raises:
        Unreadable: it is none.
    """
    value: Any = fields.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise Unreadable(f"Its {name} is {text(value)!r}, which is no number of tokens.")
    return int(value)
