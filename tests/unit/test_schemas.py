"""Schemas that are hostile, and what it costs to find that out."""

import resource
import time
from typing import Any

import pytest

from models_app import schemas
from models_app.engines.grammar import GrammarError

# Each keeps llguidance busy for far longer than the child may compute.
HOSTILE: dict[str, dict[str, Any]] = {
    "multiple": {"type": "integer", "multipleOf": 123456789},
    "patterns": {"allOf": [{"type": "string", "pattern": f"^.*x.{{{n * 10}}}y.*$"} for n in range(30)]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_would_take_for_ever_costs_seconds_of_a_child_and_that_once(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    own = time.process_time()
    for _ in range(2):
        with pytest.raises(GrammarError, match="too complex"):
            schemas.check(HOSTILE[name])
    assert time.process_time() - own < 1
    assert 1 < resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 4


def test_what_a_child_has_found_is_said_as_anything_else() -> None:
    with pytest.raises(GrammarError, match=r"^properties\.a: Unknown format: colour$"):
        schemas.check({"type": "object", "properties": {"a": {"type": "string", "format": "colour"}}})
    schemas.check({"type": "string", "pattern": "^[a-z]+$", "maxLength": 9})


def test_a_schema_without_expressions_needs_no_child() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    schemas.check({"type": "object", "properties": {"b": {"type": "integer"}}})
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime == before


def test_chains_of_references_grow_into_nothing() -> None:
    links: dict[str, Any] = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(30)}
    schemas.check({"$defs": {**links, "l30": {"type": "object"}}, "$ref": "#/$defs/l0"})
