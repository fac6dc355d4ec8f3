"""Lists in pages: ``limit``, ``after``, ``before`` and ``order`` over ids that sort by age."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmsp_site.asgi_http import nonnegative
from lmsp_site.errors import InvalidRequest
from tasks_app.models import Task, TaskQuerySet


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks, and whether there are more after them."""

    items: list[Task]
    has_more: bool


def limit(parameters: Mapping[str, str], *, default: int, most: int) -> int:
    """Return ``limit``; what is greater than `most` is clamped.

    Raises:
        InvalidRequest: not a positive number.
    """
    text = parameters.get("limit")
    value = default if text is None else nonnegative(text, "limit")
    if value < 1:
        raise InvalidRequest("limit must be at least 1.", param="limit")
    return min(value, most)


def by_id(tasks: TaskQuerySet, parameters: Mapping[str, str]) -> Page:
    """Return the page of `tasks` that the query parameters ask for, newest first unless ``order=asc``.

    Raises:
        InvalidRequest: a bad limit or order, or a cursor that is no task of this list.
    """
    order = parameters.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order must be asc or desc.", param="order")
    most = limit(parameters, default=20, most=100)
    # `before` is `after` in the other direction.
    backwards = "before" in parameters
    if backwards and "after" in parameters:
        raise InvalidRequest("Send after or before, not both.", param="before")
    ascending = (order == "asc") is not backwards
    name = "before" if backwards else "after"
    if cursor := parameters.get(name):
        if not tasks.filter(pk=cursor).exists():
            raise InvalidRequest(f"{name} must be the id of a task in this list.", code="invalid_cursor", param=name)
        tasks = tasks.filter(id__gt=cursor) if ascending else tasks.filter(id__lt=cursor)
    elif name in parameters:
        raise InvalidRequest(f"{name} must not be empty.", code="invalid_cursor", param=name)
    found = list(tasks.order_by("id" if ascending else "-id")[: most + 1])
    items = found[:most]
    return Page(items[::-1] if backwards else items, len(found) > most)


def list_object(data: list[dict[str, Any]], has_more: bool) -> dict[str, Any]:
    """Return the API's list object."""
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }
