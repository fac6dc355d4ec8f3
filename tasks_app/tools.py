"""Tools of a request: what its model is shown, may call and must call."""

from collections.abc import Mapping
from typing import Any

Tool = dict[str, Any]


def callable_tools(fields: Mapping[str, Any]) -> list[Tool]:
    """Return the tools that the choice leaves; the model is shown no others, so that it calls no others."""
    tools: list[Tool] = fields.get("tools") or []
    choice = fields.get("tool_choice") or "auto"
    if isinstance(choice, str):
        return [] if choice == "none" else tools
    if choice["type"] == "function":
        names = {choice["name"]}
    elif choice["mode"] == "none":
        names = set()
    else:
        names = {tool["name"] for tool in choice["tools"]}
    return [tool for tool in tools if tool["name"] in names]


def must_call(fields: Mapping[str, Any]) -> bool:
    """Tell whether the model has to call a tool."""
    choice = fields.get("tool_choice") or "auto"
    if isinstance(choice, str):
        return choice == "required"
    return choice["type"] == "function" or bool(choice["mode"] == "required")


def most_calls(fields: Mapping[str, Any]) -> int | None:
    """Return how many calls the model may make; ``None`` where nothing bounds them."""
    choice = fields.get("tool_choice")
    named = isinstance(choice, dict) and choice["type"] == "function"
    if named or fields.get("parallel_tool_calls") is False:
        return 1
    most: int | None = fields.get("max_tool_calls")
    return most


def are_enforced(fields: Mapping[str, Any]) -> bool:
    """Tell whether calls have to follow the schemas of their tools: where one must be made, or a tool is strict."""
    return must_call(fields) or any(tool["strict"] for tool in callable_tools(fields))
