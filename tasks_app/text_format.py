"""The form that a request demands of its answer's text, in both APIs, and the grammar that it means.

A form is refused here, before the request is accepted, or can be kept to.
"""

import re
from typing import Any

from rest_framework import serializers

from models_app import schemas
from models_app.engines import grammar
from models_app.engines.grammar import GrammarError

Form = dict[str, Any]

PLAIN: Form = {"type": "text"}
_TYPES = ("text", "json_object", "json_schema")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_DESCRIPTION = 4096


def read(form: Any) -> Form:
    """Return ``text.format`` as the response echoes it; null is plain text.

    Raises:
        ValidationError: by member, where one of them is wrong.
    """
    if form is None:
        return PLAIN
    if not isinstance(form, dict) or form.get("type") not in _TYPES:
        raise serializers.ValidationError(f"format must be an object whose type is one of {', '.join(_TYPES)}.")
    if form["type"] != "json_schema":
        return {"type": form["type"]}
    return {"type": "json_schema", **_described(form)}


def read_chat(form: Any) -> Form:
    """Return ``response_format`` of a chat completion as ``text.format``: its schema stands one level deeper there."""
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return read(form)
    described = form.get("json_schema")
    if not isinstance(described, dict):
        raise serializers.ValidationError({"json_schema": "Must be an object with name and schema."})
    try:
        return {"type": "json_schema", **_described(described)}
    except serializers.ValidationError as error:
        raise serializers.ValidationError({"json_schema": error.detail}) from None


def schema_of(form: Form) -> dict[str, Any] | None:
    """Return the schema of the texts that have the form; ``None`` for any text."""
    if form["type"] == "json_object":
        return schemas.JSON_OBJECT
    schema: dict[str, Any] | None = form.get("schema")
    return schema


def grammar_of(form: Form) -> str | None:
    """Return the grammar of the texts that have the form; ``None`` for any text."""
    if form["type"] == "json_schema":
        return grammar.from_json_schema(form["schema"])
    return grammar.from_json_schema(schemas.JSON_OBJECT) if form["type"] == "json_object" else None


def _described(form: dict[str, Any]) -> dict[str, Any]:
    name, description, strict, schema = (form.get(key) for key in ("name", "description", "strict", "schema"))
    _require(
        isinstance(name, str) and _NAME.fullmatch(name), "name", "Must have 1 to 64 characters A-Z, a-z, 0-9, _, -."
    )
    _require(
        description is None or (isinstance(description, str) and len(description) <= _MAX_DESCRIPTION),
        "description",
        f"Must be a string of up to {_MAX_DESCRIPTION} characters.",
    )
    _require(strict is None or isinstance(strict, bool), "strict", "Must be true or false.")
    _require(isinstance(schema, dict), "schema", "Must be a JSON schema, as an object.")
    assert isinstance(schema, dict)
    try:
        schemas.check(schema)
    except GrammarError as error:
        raise serializers.ValidationError({"schema": str(error)}) from error
    return {"name": name, "description": description, "schema": schema, "strict": bool(strict)}


def _require(condition: Any, member: str, message: str) -> None:
    if not condition:
        raise serializers.ValidationError({member: message})
