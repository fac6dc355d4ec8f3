"""``input`` of a request: a string or items, checked one by one and brought into the form in which they are stored."""

import re
from collections.abc import Callable
from typing import Any

from rest_framework import serializers

from tasks_app.items import Item, text_message, text_part

MAX_TEXT = 10 * 1024 * 1024
MAX_ITEMS = 4096
_MAX_PARTS = 1024
_MAX_SEALED = 16 * 1024 * 1024

_ROLES = ("user", "assistant", "system", "developer")
_STATUSES = ("in_progress", "completed", "incomplete")
_PHASES = ("commentary", "final_answer")
_TEXT_PARTS = ("input_text", "output_text", "text")
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_CALL_ID = re.compile(r"[^\s\x00-\x1f]{1,64}")
_FUNCTION = re.compile(r"[A-Za-z0-9_-]{1,128}")


class _Unfit(Exception):
    """An item cannot be taken; the message says why."""


class InputField(serializers.Field):
    """``input``: a string, or a list of items.

    Becomes a list of items as ``items`` describes them; an item that came without an id has none yet. References and
    compactions are still to be resolved.
    """

    def to_internal_value(self, data: Any) -> list[Item]:
        """Read the items; the error names the one that cannot be taken."""
        if isinstance(data, str):
            if len(data) > MAX_TEXT:
                raise serializers.ValidationError(f"A text has at most {MAX_TEXT} characters.")
            return [text_message("user", data)]
        if not isinstance(data, list):
            raise serializers.ValidationError("Must be a string or a list of items.")
        if not data:
            raise serializers.ValidationError("Must not be empty.")
        if len(data) > MAX_ITEMS:
            raise serializers.ValidationError(f"Must have at most {MAX_ITEMS} items.")
        return [read_item(item, f"Item {index}") for index, item in enumerate(data)]

    def to_representation(self, value: Any) -> Any:
        """Return the items as they are."""
        return value


def read_item(data: Any, called: str) -> Item:
    """Return an item in its stored form.

    Raises:
        ValidationError: it cannot be taken; the message begins with what it is `called`.
    """
    try:
        return _item(data)
    except _Unfit as error:
        raise serializers.ValidationError(f"{called}: {error}") from None


def _item(data: Any) -> Item:
    if not isinstance(data, dict):
        raise _Unfit("must be an object.")
    kind = _kind(data)
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise _Unfit(f"this service takes no items of type {_short(kind)}.")
    named = {} if data.get("id") is None else {"id": _matching(data, "id", _ID)}
    return {**named, "type": kind, **reader(data)}


def _kind(data: dict[str, Any]) -> Any:
    if data.get("type") is not None:
        return data["type"]
    return "item_reference" if "id" in data and not data.keys() & {"role", "content"} else "message"


def _message(data: dict[str, Any]) -> Item:
    role, phase = data.get("role"), data.get("phase")
    if role not in _ROLES:
        raise _Unfit(f"role must be one of {', '.join(_ROLES)}.")
    if phase is not None and phase not in _PHASES:
        raise _Unfit(f"phase must be one of {', '.join(_PHASES)}.")
    content = data.get("content")
    if isinstance(content, str):
        parts = [text_part(role, _sized(content))]
    else:
        parts = [_part(part, role) for part in _list(content, "content must be a string or a list of parts.")]
    item = {"role": role, "status": _status(data), "content": parts}
    return {**item, "phase": phase} if phase and role == "assistant" else item


def _part(part: Any, role: str) -> dict[str, Any]:
    if role == "assistant" and isinstance(part, dict) and part.get("type") == "refusal":
        return {"type": "refusal", "refusal": _text(part, "refusal")}
    return text_part(role, _text_of(part))


def _text_of(part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _TEXT_PARTS:
        raise _Unfit(f"the model takes text only, not content of type {_short(kind)}.")
    return _text(part, "text")


def _function_call(data: dict[str, Any]) -> Item:
    return {
        "status": _status(data),
        "call_id": _matching(data, "call_id", _CALL_ID),
        "name": _matching(data, "name", _FUNCTION),
        "arguments": _text(data, "arguments"),
    }


def _function_call_output(data: dict[str, Any]) -> Item:
    output = data.get("output")
    if isinstance(output, str):
        said: Any = _sized(output)
    else:
        parts = _list(output, "output must be a string or a list of parts.")
        said = [text_part("user", _text_of(part)) for part in parts]
    return {"status": _status(data), "call_id": _matching(data, "call_id", _CALL_ID), "output": said}


def _reasoning(data: dict[str, Any]) -> Item:
    item: Item = {"summary": _texts(data, "summary", "summary_text")}
    if data.get("content") is not None:
        item["content"] = _texts(data, "content", "reasoning_text")
    if data.get("encrypted_content") is not None:
        item["encrypted_content"] = _text(data, "encrypted_content")
    return item


def _texts(data: dict[str, Any], name: str, kind: str) -> list[dict[str, str]]:
    parts = _list(data.get(name), f"{name} must be a list of parts.")
    if not all(isinstance(part, dict) and part.get("type") == kind for part in parts):
        raise _Unfit(f"{name} must have parts of type {kind} only.")
    return [{"type": kind, "text": _text(part, "text")} for part in parts]


def _compaction(data: dict[str, Any]) -> Item:
    sealed = data.get("encrypted_content")
    if not isinstance(sealed, str) or not 0 < len(sealed) <= _MAX_SEALED:
        raise _Unfit(f"encrypted_content must be a string of 1 to {_MAX_SEALED} characters.")
    return {"encrypted_content": sealed}


def _item_reference(data: dict[str, Any]) -> Item:
    return {"id": _matching(data, "id", _ID)}


_READERS: dict[str, Callable[[dict[str, Any]], Item]] = {
    "message": _message,
    "function_call": _function_call,
    "function_call_output": _function_call_output,
    "reasoning": _reasoning,
    "compaction": _compaction,
    "item_reference": _item_reference,
}


def _status(data: dict[str, Any]) -> str:
    status = data.get("status")
    if status is not None and status not in _STATUSES:
        raise _Unfit(f"status must be one of {', '.join(_STATUSES)}.")
    return status or "completed"


def _matching(data: dict[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _Unfit(f"{name} must be a string that matches {pattern.pattern}, not {_short(value)}.")
    return value


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise _Unfit(f"{name} must be a string.")
    return _sized(value)


def _sized(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise _Unfit(f"a text has at most {MAX_TEXT} characters.")
    return text


def _list(value: Any, otherwise: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Unfit(otherwise)
    if len(value) > _MAX_PARTS:
        raise _Unfit(f"a list of parts has at most {_MAX_PARTS} of them.")
    return value


def _short(value: Any) -> str:
    """Return what a message can quote of a value that may be anything, of any size."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
