"""JSON schemas that an output can be made to follow: what is taken, and which part of one is not.

llguidance says what it does not take, but not where; the part is found by asking it about each part alone. It
bounds its work but for that on regular expressions, of which some that meet keep it busy without an end: schemas
that have any are looked at in a child, which is ended by the kernel when it has computed for too long.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from models_app.engines import grammar
from models_app.engines.grammar import GrammarError

MAX_CHARACTERS = 128 * 1024
MAX_PROPERTIES = 1000
"""Of all objects of a schema together: each property that may be left out multiplies the ways to go on."""

JSON_OBJECT: dict[str, Any] = {"type": "object"}

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SHARED = ("$defs", "definitions")
_SEARCH_SECONDS = 0.25
_EXPRESSIONS = frozenset(("pattern", "patternProperties", "multipleOf", "format"))
_TOO_COMPLEX = "its regular expressions or numbers are too complex together; make pattern or multipleOf simpler."
_children = threading.BoundedSemaphore(2)
"""Hostile schemas keep no more processors busy than this."""


_PLAINER = (
    ("Unimplemented keys: ", "keywords that are not supported: "),
    (
        "oneOf constraints are not supported. Enable 'coerce_one_of' option to approximate oneOf with anyOf",
        "oneOf is supported only where its alternatives cannot overlap; use anyOf",
    ),
    (
        "is not present in a registry and retrieving it failed: Default retriever does not fetch resources",
        "is not in this schema, and nothing is fetched from elsewhere",
    ),
)


def check(schema: dict[str, Any]) -> None:
    """Refuse a schema that no output could be made to follow.

    Takes milliseconds, with regular expressions the start of a process, and seconds where it is hostile. What was
    found is remembered: the same few schemas come again and again.

    Raises:
        GrammarError: saying what is not taken, and the part of the schema where it stands.
    """
    text = json.dumps(schema, ensure_ascii=False)
    if len(text) > MAX_CHARACTERS:
        raise GrammarError(f"it is longer than {MAX_CHARACTERS} characters.")
    parts = list(_parts(schema))
    if sum(len(_named(part, "properties")) for _path, part in parts) > MAX_PROPERTIES:
        raise GrammarError(f"it has more than {MAX_PROPERTIES} properties.")
    for path, part in parts:
        _require_countable(path, part)
    if found := _verdict(text):
        raise GrammarError(found)


def examine(schema: dict[str, Any]) -> str | None:
    """Return what is wrong with a schema, however long that takes; ``None`` where nothing is."""
    message = _complaint(schema)
    if message is None:
        return None
    deadline = time.monotonic() + _SEARCH_SECONDS
    path, part = _place_of(message, schema, deadline)
    keyword = _keyword_of(message, part, deadline)
    for said, plainer in _PLAINER:
        message = message.replace(said, plainer)
    return ": ".join([*([path] if path else ()), *([f'"{keyword}"'] if keyword else ()), message])


def _require_countable(path: str, part: dict[str, Any]) -> None:
    """Refuse to promise a number of properties: an output may repeat a name, of which a reader keeps the last."""
    least, required = part.get("minProperties"), part.get("required", [])
    if isinstance(least, int | float) and isinstance(required, list) and least > len(required):
        place = f"{path}: " if path else ""
        raise GrammarError(f'{place}"minProperties" is supported only up to the number of names in "required".')


@lru_cache(maxsize=64)
def _verdict(text: str) -> str | None:
    schema = json.loads(text)
    return _examine_in_child(text) if has_expressions(schema) else examine(schema)


def has_expressions(value: Any) -> bool:
    """Tell whether a schema has what llguidance's bounds do not hold for."""
    if isinstance(value, dict):
        return not _EXPRESSIONS.isdisjoint(value) or any(map(has_expressions, value.values()))
    return isinstance(value, list) and any(map(has_expressions, value))


def _examine_in_child(text: str) -> str | None:
    with _children:
        child = subprocess.run(
            [sys.executable, "-m", "models_app.check_schema"],
            input=text.encode(),
            capture_output=True,
            cwd=Path(__file__).parent.parent,
            check=False,
        )
    if child.returncode:
        return _TOO_COMPLEX
    found: str | None = json.loads(child.stdout)
    return found


def _complaint(schema: dict[str, Any]) -> str | None:
    try:
        grammar.check(grammar.from_json_schema(schema))
    except GrammarError as error:
        return " ".join(str(error).split())
    return None


def _place_of(message: str, schema: dict[str, Any], deadline: float) -> tuple[str, dict[str, Any]]:
    """Return the path of the innermost part that is refused for the same reason, empty for the whole, and that part."""
    shared = {name: schema[name] for name in _SHARED if name in schema}
    for path, part in _parts(schema):
        if time.monotonic() > deadline:
            break
        if path and _complaint(shared | part) == message:
            return path, shared | part
    return "", schema


def _keyword_of(message: str, part: dict[str, Any], deadline: float) -> str:
    """Return the keyword without which a part would not be refused for that; empty where the message names it."""
    keywords = [keyword for keyword in part if keyword not in _SHARED]
    if any(keyword in message for keyword in keywords):
        return ""
    for keyword in keywords:
        if time.monotonic() > deadline:
            break
        if _complaint({name: value for name, value in part.items() if name != keyword}) != message:
            return keyword
    return ""


def _parts(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas in a schema with their paths, the inner ones first."""
    if not isinstance(schema, dict):
        return
    for keyword in _NAMED:
        for name, part in _named(schema, keyword).items():
            yield from _parts(part, _join(path, f"{keyword}.{name}"))
    for keyword in _LISTED:
        listed = schema.get(keyword)
        for index, part in enumerate(listed if isinstance(listed, list) else ()):
            yield from _parts(part, _join(path, f"{keyword}[{index}]"))
    for keyword in _SINGLE:
        yield from _parts(schema.get(keyword), _join(path, keyword))
    yield path, schema


def _named(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
