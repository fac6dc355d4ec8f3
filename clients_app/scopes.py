"""The scopes a token can carry."""

from collections.abc import Iterable

MODELS_READ = "models:read"
TASKS_READ = "tasks:read"
TASKS_WRITE = "tasks:write"
RESPONSES_WRITE = "responses:write"

ALL = (MODELS_READ, TASKS_READ, TASKS_WRITE, RESPONSES_WRITE)


def unknown(scopes: Iterable[str]) -> list[str]:
    """Return what in `scopes` is no scope."""
    return [scope for scope in scopes if scope not in ALL]
