"""Lists in pages: ``limit``, ``after``, ``before`` and ``order``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmsp_site.asgi_http import nonnegative
from lmsp_site.errors import InvalidRequest
from tasks_app.models import Task, TaskQuerySet

PARAMETERS = frozenset({"limit", "after", "before", "order"})


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks, and how to go on from them.

    Attributes:
        items: in the order that was asked for.
        has_more: whether the walk has not come to its end.
        first_id: the cursor to go on with backwards, if it is not the first task's id.
        last_id: the cursor to go on with, if it is not the last task's id.
    """

    items: list[Task]
    has_more: bool
    first_id: str | None = None
    last_id: str | None = None


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


def refuse_others(parameters: Collection[str], known: Collection[str]) -> None:
    """Refuse a parameter that is not known: a list that leaves a filter out says what is not true.

    Raises:
        InvalidRequest: naming it (``unknown_parameter``).
    """
    for name in parameters:
        if name not in known:
            raise InvalidRequest(
                f"There is no parameter {name[:60]!r} here.", code="unknown_parameter", param=name[:60]
            )


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for.

    Attributes:
        limit: how many at most.
        ascending: whether the list is to be walked from its oldest entry.
        cursor: the id behind which the walk begins; ``None`` for the start.
        backwards: whether the walk runs against the order that was asked for: `before` is `after` that way.
    """

    limit: int
    ascending: bool
    cursor: str | None
    backwards: bool

    @classmethod
    def of(cls, parameters: Mapping[str, str], *, default: int, most: int) -> "Window":
        """Read the parameters of a call.

        Raises:
            InvalidRequest: a bad limit or order, an empty cursor, or two of them.
        """
        order = parameters.get("order", "desc")
        if order not in ("asc", "desc"):
            raise InvalidRequest("order must be asc or desc.", param="order")
        backwards = "before" in parameters
        if backwards and "after" in parameters:
            raise InvalidRequest("Send after or before, not both.", param="before")
        name = "before" if backwards else "after"
        cursor = parameters.get(name)
        if cursor == "":
            raise InvalidRequest(f"{name} must not be empty.", code="invalid_cursor", param=name)
        size = limit(parameters, default=default, most=most)
        return cls(size, (order == "asc") is not backwards, cursor, backwards)

    def bad_cursor(self, what: str) -> InvalidRequest:
        """Return the error for a cursor that is not `what` it has to be."""
        name = "before" if self.backwards else "after"
        return InvalidRequest(f"{name} must be the id of {what}.", code="invalid_cursor", param=name)

    def along(self, tasks: TaskQuerySet) -> TaskQuerySet:
        """Return `tasks` from the cursor on, in the direction of the walk."""
        if self.cursor:
            tasks = tasks.filter(id__gt=self.cursor) if self.ascending else tasks.filter(id__lt=self.cursor)
        return tasks.order_by("id" if self.ascending else "-id")

    def page(self, found: list[Task], *, has_more: bool, come_to: str | None) -> Page:
        """Return what the walk has found.

        Args:
            found: tasks, in the order of the walk.
            has_more: whether the walk has not come to its end.
            come_to: the id at which it stopped, if there is no saying by `found` alone.
        """
        if self.backwards:
            return Page(found[::-1], has_more, first_id=come_to)
        return Page(found, has_more, last_id=come_to)

    def part_of(self, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the list object of a part of `entries`, which are whole and oldest first.

        Raises:
            InvalidRequest: a cursor that is none of them.
        """
        walk = list(entries) if self.ascending else list(entries)[::-1]
        if self.cursor:
            place = next((place for place, entry in enumerate(walk) if entry["id"] == self.cursor), None)
            if place is None:
                raise self.bad_cursor("an item in this list")
            walk = walk[place + 1 :]
        part = walk[: self.limit]
        return list_object(part[::-1] if self.backwards else part, has_more=len(walk) > self.limit)


def list_object(
    data: list[dict[str, Any]], *, has_more: bool, first_id: str | None = None, last_id: str | None = None
) -> dict[str, Any]:
    """Return the API's list object; the ids are those of the first and last entry unless others are given."""
    return {
        "object": "list",
        "data": data,
        "first_id": first_id or (data[0]["id"] if data else None),
        "last_id": last_id or (data[-1]["id"] if data else None),
        "has_more": has_more,
    }
