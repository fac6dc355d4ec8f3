"""JSON in pieces: where an object that is still being written ends, and what its first members are."""

import json
import re
from typing import Any, NamedTuple

_PLAIN = re.compile(r"[^\"\\]*")
# What JSON has outside of its strings and brackets.
_BETWEEN = re.compile(r"[\s:,0-9.+\-a-zA-Z]*")
_WORD = re.compile(r"[0-9.+\-a-zA-Z]*")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CLOSES = {"{": "}", "[": "]"}


def loads(text: str) -> Any:
    """Read JSON as the standard has it; ``ValueError`` for anything else."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("too deep") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class ObjectScanner:
    """Finds the end of a JSON object (or list) by its brackets and strings; ``loads`` says whether it is one."""

    def __init__(self, opening: str = "{") -> None:
        self._opening = opening
        self.complete = False
        self.broken = False
        self._expected: list[str] = []
        self._in_string = False
        self._escaped = False

    def feed(self, text: str, start: int = 0) -> int:
        """Take in `text` from `start` on and return where the object ends, or what cannot be part of it begins."""
        at = start
        while at < len(text) and not self.complete and not self.broken:
            if self._escaped:
                self._escaped = False
                at += 1
            elif self._in_string:
                at = self._string(text, at)
            else:
                at = self._structure(text, at)
        return at

    def _string(self, text: str, at: int) -> int:
        at = _PLAIN.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return at
        if text[at] == "\\":
            self._escaped = True
        else:
            self._in_string = False
        return at + 1

    def _structure(self, text: str, at: int) -> int:
        if self._expected:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if at == len(text):
                return at
        found = text[at]
        if found in _CLOSES and (self._expected or found == self._opening):
            self._expected.append(_CLOSES[found])
        elif self._expected and found == self._expected[-1]:
            self._expected.pop()
            self.complete = not self._expected
        elif self._expected and found == '"':
            self._in_string = True
        else:
            self.broken = True
            return at
        return at + 1


class Incomplete(Exception):
    """What there is so far does not tell."""


class Header(NamedTuple):
    """How an object that calls a function begins.

    Attributes:
        name: of the function.
        arguments: their JSON text where they were read whole; ``None`` where they begin at `end`.
        end: where the header ends, in the text.
    """

    name: str
    arguments: str | None
    end: int


def read_header(text: str) -> Header:
    """Read an object with a function's ``name`` and its ``arguments`` (or ``parameters``), in any order.

    Raises:
        Incomplete: more of the text is needed.
        ValueError: it is no such object.
    """
    at = _expect(text, 0, "{")
    name: str | None = None
    arguments: str | None = None
    while True:
        at = _blank(text, at)
        key, at = _string(text, at)
        at = _blank(text, _expect(text, at, ":"))
        if key in ("arguments", "parameters") and name is not None and text[at : at + 1] == "{":
            return Header(name, None, at)
        value, end = _value(text, at)
        if key == "name":
            if not isinstance(value, str):
                raise ValueError("the name is no string")
            name = value
        elif key in ("arguments", "parameters"):
            arguments = _arguments(value, text[at:end])
        at = _blank(text, end)
        if text[at : at + 1] == "}":
            if name is None:
                raise ValueError("there is no name")
            # A function without parameters may be called without arguments.
            return Header(name, arguments or "{}", at)
        at = _expect(text, at, ",")


def space(text: str, at: int = 0) -> int:
    """Return where the white space from `at` on ends."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _arguments(value: Any, written: str) -> str:
    if isinstance(value, str):
        # Some models write JSON in a string.
        written, value = value, loads(value)
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise ValueError("the arguments are no object")  # noqa: TRY004 - it is the text that is wrong
    return written


def _blank(text: str, at: int) -> int:
    at = space(text, at)
    if at == len(text):
        raise Incomplete
    return at


def _expect(text: str, at: int, sign: str) -> int:
    at = _blank(text, at)
    if text[at] != sign:
        raise ValueError(f"{sign} is missing")
    return at + 1


def _string(text: str, at: int) -> tuple[str, int]:
    if text[at] != '"':
        raise ValueError("a string is missing")
    found = _STRING.match(text, at)
    if found is None:
        raise Incomplete
    value = str(loads(found[0]))
    value.encode()  # Half a surrogate pair can be written in JSON, and nowhere else.
    return value, found.end()


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at] == '"':
        return _string(text, at)
    if text[at] in _CLOSES:
        scanner = ObjectScanner(text[at])
        end = scanner.feed(text, at)
        if scanner.broken:
            raise ValueError("the brackets do not match")
        if not scanner.complete:
            raise Incomplete
    else:
        end = _WORD.match(text, at).end()  # type: ignore[union-attr]
        if end == len(text):
            raise Incomplete
    return loads(text[at:end]), end
