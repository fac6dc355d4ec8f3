"""The description of the API as tests use it: as it is, and closed, so that what it does not name is a fault."""

import json
from copy import deepcopy
from typing import Any

import jsonschema
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.schemas import OpenApiSchema

from lmsp_site.openapi.document import document

DOCUMENT: dict[str, Any] = json.loads(document().body)
# Enough to come to every field of a request; what takes longest is the validation of what was answered.
_CONFIG = {
    "seed": 1,
    "phases": {"coverage": {"enabled": False}, "stateful": {"enabled": False}},
    # Requests that wait for an answer of the model wait for the machine.
    "request-timeout": 120,
}


def loaded(source: dict[str, Any]) -> OpenApiSchema:
    """Return a document as the tool takes it."""
    return schemathesis.openapi.from_dict(source, config=SchemathesisConfig.from_dict(_CONFIG))


def closed() -> dict[str, Any]:
    """Return the document with objects that have no properties beside those that they name."""
    found = deepcopy(DOCUMENT)
    _close(found["components"]["schemas"])
    return found


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """Return what is described, by path and method."""
    return {
        (path, method.upper()): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }


def answers() -> set[tuple[str, str, int, str]]:
    """Return every answer of a call that succeeds: path, method, status and media type."""
    return {
        (path, method, int(status), media_type)
        for (path, method), operation in operations().items()
        for status, answer in operation["responses"].items()
        if int(status) < 400
        for media_type in answer.get("content", {"": None})
    }


def check(name: str, value: Any, source: dict[str, Any]) -> None:
    """See that a value is as a component of a document says."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": source["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in schema.values():
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)
