"""Open Responses, release 2026-04-24, as its published types have it: every key, every type."""

import json
from typing import Any

import openresponses_types
from pydantic import BaseModel

SPEC_VERSION = "2026-04-24"
# What the service adds to the release's events (protocol, section 3).
_OURS = {"response.cancelled"}

assert openresponses_types.__spec_version__ == SPEC_VERSION


_NO_TOKENS = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _event_models() -> dict[str, type[BaseModel]]:
    models = {}
    for name in dir(openresponses_types):
        if name.endswith("StreamingEvent"):
            model = getattr(openresponses_types, name)
            (kind,) = model.model_fields["type"].annotation
            models[str(kind)] = model
    return models


EVENTS = _event_models()
REQUIRED = {name for name, field in openresponses_types.ResponseResource.model_fields.items() if field.is_required()}


def check_response(response: dict[str, Any]) -> None:
    """See that a response object is one, with every required key; ours are in one object."""
    openresponses_types.ResponseResource.model_validate_json(json.dumps(_as_released(response)), strict=True)
    assert response.keys() - REQUIRED == {"lmsp"}


def _as_released(response: dict[str, Any]) -> dict[str, Any]:
    """Return the response with null as its schema: the release's types want that, and the official API shows it."""
    form = response.get("text", {}).get("format", {})
    if form.get("type") != "json_schema":
        return response
    assert isinstance(form["schema"], dict)
    return response | {"text": {**response["text"], "format": form | {"schema": None}}}


def check_compaction(window: dict[str, Any]) -> None:
    """See that a compaction object is one, with no key beside those of the release."""
    openresponses_types.CompactResource.model_validate_json(json.dumps(window), strict=True)
    assert window.keys() == openresponses_types.CompactResource.model_fields.keys()


def check_items(items: list[dict[str, Any]]) -> None:
    """See that each is an item as a response's output may have it."""
    empty: dict[str, Any] = {"object": "response.compaction", "id": "resp_1", "created_at": 0, "usage": _NO_TOKENS}
    check_compaction({**empty, "output": items})


def check_error(body: dict[str, Any]) -> None:
    """See that the body of a refusal is the envelope, with every key."""
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    openresponses_types.ErrorPayload.model_validate_json(json.dumps(body["error"]), strict=True)


def check_socket_error(event: dict[str, Any]) -> None:
    """See that an error on a websocket is one."""
    openresponses_types.WebSocketErrorEvent.model_validate_json(json.dumps(event), strict=True)
    check_error({"error": event["error"]})
    assert event.keys() == {"type", "status", "error"}


def check_list(page: dict[str, Any]) -> None:
    """See that a page is one; the release knows items, and no models."""
    assert page.keys() == {"object", "data", "first_id", "last_id", "has_more"}
    check_items([item for item in page["data"] if item.get("object") != "model"])


def check(status: int, body: dict[str, Any]) -> str:
    """See that an object that came with an HTTP status (101: over a websocket) is as it should be; return its kind."""
    if "type" in body:
        check_socket_error(body) if (status, body["type"]) == (101, "error") else check_event(body)
        return str(body["type"])
    if status >= 400:
        check_error(body)
        return "error"
    kind = str(body["object"])
    if body.get("deleted"):
        assert body.keys() == {"id", "object", "deleted"}
    elif kind in _CHECKS:
        _CHECKS[kind](body)
    else:
        assert kind in _KNOWN_ELSEWHERE, kind
    return kind


def check_event(event: dict[str, Any]) -> None:
    """See that an event is one that the release knows, or ours; a response in it is checked too."""
    if "response" in event:
        check_response(event["response"])
        event = event | {"response": _as_released(event["response"])}
    if event["type"] not in _OURS:
        EVENTS[event["type"]].model_validate_json(json.dumps(event), strict=True)
    # Both official clients throw at an event with this key.
    assert not event.get("error")


_CHECKS = {"response": check_response, "response.compaction": check_compaction, "list": check_list}
# The official API has these, and Open Responses does not.
_KNOWN_ELSEWHERE = {"model", "response.input_tokens"}
