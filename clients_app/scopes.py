"""The scopes a token can carry."""

from collections.abc import Iterable

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


def unknown(scopes: Iterable[str]) -> list[str]:
    """Return what in `scopes` is no scope."""
    return [scope for scope in scopes if scope not in ALL]
