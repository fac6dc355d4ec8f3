"""``tools`` and ``tool_choice`` of a request, in the forms that both APIs have for them."""

import json
import re
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from rest_framework import serializers

from tasks_app.tools import Tool

MAX_TOOLS = 128
MAX_CHARACTERS = 256 * 1024
FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MODES = ("auto", "required")


class ToolsField(serializers.Field):
    """``tools``: functions that the model may call; becomes a list of tools as a response shows them."""

    def to_internal_value(self, data: Any) -> list[Tool]:
        """Read the tools; the error names the one that cannot be taken, and where in its schema the fault is."""
        if not isinstance(data, list) or len(data) > MAX_TOOLS:
            raise serializers.ValidationError(f"Must be a list of up to {MAX_TOOLS} tools.")
        tools = [self._read(tool, f"Tool {index}") for index, tool in enumerate(data)]
        names = [tool["name"] for tool in tools]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise serializers.ValidationError(f"There are two tools of the name {twice}; names tell them apart.")
        if len(json.dumps(tools)) > MAX_CHARACTERS:
            raise serializers.ValidationError(f"Must have at most {MAX_CHARACTERS} characters as JSON.")
        return tools

    def to_representation(self, value: Any) -> Any:
        """Return the tools as they are."""
        return value

    def _read(self, tool: Any, called: str) -> Tool:
        if not isinstance(tool, dict):
            raise serializers.ValidationError(f"{called}: must be an object.")
        if tool.get("type") != "function":
            raise serializers.ValidationError(
                f"{called}: this service knows tools of the type function only, not {_short(tool.get('type'))}."
            )
        function = self._function(tool)
        if not isinstance(function, dict):
            raise serializers.ValidationError(f"{called}: function must be an object.")
        return {
            "type": "function",
            "name": _name(function.get("name"), called),
            "description": _optional(function, "description", str, "a string", called),
            "parameters": _parameters(_optional(function, "parameters", dict, "a JSON schema", called), called),
            "strict": _optional(function, "strict", bool, "true or false", called),
        }

    def _function(self, tool: dict[str, Any]) -> Any:
        return tool


class ChatToolsField(ToolsField):
    """``tools`` as chat completions have them: what a function is stands in an object of its own."""

    def _function(self, tool: dict[str, Any]) -> Any:
        return tool.get("function")


class ToolChoiceField(serializers.Field):
    """``tool_choice``: a word, a function that must be called, or the tools that may or must be."""

    def to_internal_value(self, data: Any) -> str | dict[str, Any]:
        """Return the choice as a response shows it."""
        if isinstance(data, str) and data in ("auto", "none", "required"):
            return data
        kind = data.get("type") if isinstance(data, dict) else None
        if kind == "function":
            return {"type": "function", "name": self._named(data)}
        if kind == "allowed_tools":
            return self._allowed(self._body(data))
        raise serializers.ValidationError(
            "Must be auto, none, required, or an object of the type function or allowed_tools, "
            f"not {_short(data if kind is None else kind)}."
        )

    def to_representation(self, value: Any) -> Any:
        """Return the choice as it is."""
        return value

    def _allowed(self, data: Any) -> dict[str, Any]:
        tools = data.get("tools") if isinstance(data, dict) else None
        if not isinstance(tools, list) or not 0 < len(tools) <= MAX_TOOLS:
            raise serializers.ValidationError(f"allowed_tools needs tools, a list of 1 to {MAX_TOOLS}.")
        if data.get("mode") not in _MODES:
            raise serializers.ValidationError(f"mode must be one of {', '.join(_MODES)}.")
        for tool in tools:
            if not isinstance(tool, dict) or tool.get("type") != "function":
                raise serializers.ValidationError("allowed_tools must be objects of the type function with a name.")
        named = [{"type": "function", "name": self._named(tool)} for tool in tools]
        return {"type": "allowed_tools", "mode": data["mode"], "tools": named}

    def _named(self, data: dict[str, Any]) -> str:
        return _name(data.get("name"), "The function")

    def _body(self, data: dict[str, Any]) -> Any:
        return data


class ChatToolChoiceField(ToolChoiceField):
    """``tool_choice`` as chat completions have it."""

    def _named(self, data: dict[str, Any]) -> str:
        function = data.get("function")
        return _name(function.get("name") if isinstance(function, dict) else None, "The function")

    def _body(self, data: dict[str, Any]) -> Any:
        return data.get("allowed_tools")


def check_choice(choice: str | dict[str, Any] | None, tools: list[Tool] | None) -> None:
    """Refuse a choice of tools that are not there."""
    names = {tool["name"] for tool in tools or ()}
    if choice == "required" and not names:
        raise serializers.ValidationError({"tool_choice": "There is no tool to be called; send tools, or auto."})
    if not isinstance(choice, dict):
        return
    wanted = [choice["name"]] if choice["type"] == "function" else [tool["name"] for tool in choice["tools"]]
    for name in wanted:
        if name not in names:
            raise serializers.ValidationError({"tool_choice": f"There is no tool of the name {name} among tools."})


def _name(value: Any, called: str) -> str:
    if not isinstance(value, str) or not FUNCTION_NAME.fullmatch(value):
        raise serializers.ValidationError(
            f"{called}: name must be a string that matches {FUNCTION_NAME.pattern}, not {_short(value)}."
        )
    return value


def _optional(function: dict[str, Any], name: str, kind: type, meant: str, called: str) -> Any:
    value = function.get(name)
    if value is not None and not isinstance(value, kind):
        raise serializers.ValidationError(f"{called}: {name} must be {meant}, or left out.")
    return value


def _parameters(schema: dict[str, Any] | None, called: str) -> dict[str, Any] | None:
    if schema is None:
        return None
    if schema.get("type", "object") != "object":
        raise serializers.ValidationError(f"{called}: parameters: type must be object: arguments have names.")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = cast("str", error.json_path).removeprefix("$").removeprefix(".")
        raise serializers.ValidationError(
            f"{called}: parameters: {place or 'the schema'}: {_cut(error.message)}"
        ) from None
    except RecursionError:
        raise serializers.ValidationError(f"{called}: parameters: the schema is too deep.") from None
    return schema


def _short(value: Any) -> str:
    return _cut(repr(value), 60)


def _cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
