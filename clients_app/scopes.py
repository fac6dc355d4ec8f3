"""The scopes a token can carry, and the one table of what each call needs.

Plain calls, streams and websockets, the permission check and the description of the API all ask this table. What has no
row in it is closed to clients.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

MODELS_READ = "models:read"
TASKS_READ = "tasks:read"
TASKS_WRITE = "tasks:write"
RESPONSES_WRITE = "responses:write"

MEANING = {
    MODELS_READ: "the catalogue",
    TASKS_READ: "one's own tasks and their events",
    TASKS_WRITE: "creating, cancelling and deleting tasks",
    RESPONSES_WRITE: "everything under /v1/responses, and chat completions",
}
"""What each scope there is allows, in words."""

ALL = tuple(MEANING)


def parse(text: str) -> list[str]:
    """Return the scopes that a person has written down, with commas between them.

    Raises:
        ValueError: one of them is none; the message names it and those there are.
    """
    scopes = [scope.strip() for scope in text.split(",") if scope.strip()]
    if strangers := unknown(scopes):
        raise ValueError(f"Unknown scope {strangers[0]!r}; there are {', '.join(ALL)}.")
    return scopes


WEBSOCKET = "WS"
"""Stands for the method where an address is opened as a websocket."""


class Call(NamedTuple):
    """One call.

    Attributes:
        method: of HTTP, or ``WEBSOCKET``. A HEAD is a GET.
        path: ``{name}`` stands for one segment of it, ``{name...}`` for one or several.
        scope: what a token must carry; ``None`` where any token will do.
    """

    method: str
    path: str
    scope: str | None


CALLS = (
    Call("GET", "/v1/models", MODELS_READ),
    Call("GET", "/v1/models/{model_id...}", MODELS_READ),
    Call("GET", "/v1/tasks", TASKS_READ),
    Call("POST", "/v1/tasks", TASKS_WRITE),
    Call("GET", "/v1/tasks/{task_id}", TASKS_READ),
    Call("DELETE", "/v1/tasks/{task_id}", TASKS_WRITE),
    Call("GET", "/v1/tasks/{task_id}/events", TASKS_READ),
    Call(WEBSOCKET, "/v1/tasks/{task_id}/events", TASKS_READ),
    Call(WEBSOCKET, "/v1/events", TASKS_READ),
    Call("POST", "/v1/tasks/{task_id}/cancel", TASKS_WRITE),
    Call("POST", "/v1/responses", RESPONSES_WRITE),
    Call(WEBSOCKET, "/v1/responses", RESPONSES_WRITE),
    Call("POST", "/v1/responses/compact", RESPONSES_WRITE),
    Call("POST", "/v1/responses/input_tokens", RESPONSES_WRITE),
    Call("GET", "/v1/responses/{response_id}", RESPONSES_WRITE),
    Call("DELETE", "/v1/responses/{response_id}", RESPONSES_WRITE),
    Call("POST", "/v1/responses/{response_id}/cancel", RESPONSES_WRITE),
    Call("GET", "/v1/responses/{response_id}/input_items", RESPONSES_WRITE),
    Call("POST", "/v1/chat/completions", RESPONSES_WRITE),
    # What is the client's own, and can be done to nobody else.
    Call("GET", "/v1/clients/me", None),
    Call("DELETE", "/v1/clients/me", None),
    Call("POST", "/v1/clients/me/rotate", None),
    Call("GET", "/v1/clients/me/usage", None),
)


def call(method: str, path: str) -> Call | None:
    """Return the row of a call; ``None`` where there is none."""
    wanted = "GET" if method == "HEAD" else method
    return next((row for row, pattern in _ROWS if row.method == wanted and pattern.fullmatch(path)), None)


def unknown(scopes: Iterable[str]) -> list[str]:
    """Return what in `scopes` is no scope."""
    return [scope for scope in scopes if scope not in ALL]


def _pattern(path: str) -> re.Pattern[str]:
    # As Django's converters `str` and `path` take them.
    several = re.sub(r"\{\w+\.\.\.\}", ".+", path)
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", several))


_ROWS = [(row, _pattern(row.path)) for row in CALLS]
