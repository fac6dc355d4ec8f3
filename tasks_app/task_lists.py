"""GET /v1/tasks: which of one's own tasks a list holds.

Ids sort by age and begin with the time, so that pages and times are ranges of one index, with the state or without.
Model and metadata have no index: they are looked for along the list, a bounded way for each page.
"""

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from django.http import QueryDict

from clients_app.models import Client
from lmsp_site.errors import InvalidRequest
from lmsp_site.ids import first_id_at
from tasks_app import pages
from tasks_app.models import Task, TaskQuerySet
from tasks_app.states import Status

_MOST = 100
_MOST_LOOKED_AT = 10_000
_CHUNK = 500
_DIGITS = 12
_METADATA = re.compile(r"metadata\[(.{1,64})\]", re.DOTALL)
_KNOWN = {"status", "status[]", "model", "created_after", "created_before", *pages.PARAMETERS}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are wanted; what is empty or ``None`` is any."""

    statuses: set[str] = field(default_factory=set)
    model: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    since: str | None = None
    until: str | None = None

    @classmethod
    def of(cls, parameters: QueryDict) -> "Filter":
        """Read the parameters of a call.

        Raises:
            InvalidRequest: one that is not known, or cannot be meant.
        """
        pairs = ((_METADATA.fullmatch(name), value) for name, value in parameters.dict().items())
        metadata = {match[1]: str(value) for match, value in pairs if match}
        pages.refuse_others(parameters, _KNOWN | {f"metadata[{key}]" for key in metadata})
        after, before = parameters.get("created_after"), parameters.get("created_before")
        return cls(
            statuses=_statuses(parameters),
            model=parameters.get("model"),
            metadata=metadata,
            since=None if after is None else first_id_at("task", _seconds(after, "created_after") + 1),
            until=None if before is None else first_id_at("task", _seconds(before, "created_before")),
        )

    def admits(self, row: "_Row") -> bool:
        """Tell whether a task has the model and metadata that are wanted."""
        return (self.model is None or row.model == self.model) and self.metadata.items() <= row.metadata.items()


class _Row(NamedTuple):
    id: str
    model: str
    metadata: dict[str, str]


def page(client: Client, parameters: QueryDict) -> pages.Page:
    """Return the page of a client's tasks that the query parameters ask for, newest first unless ``order=asc``.

    Where the way along the list has come to its bound, the page is shorter than its limit, and its ``last_id`` is the
    task that was looked at last.

    Raises:
        InvalidRequest: a parameter that is not known or cannot be meant, or a cursor that is no task of the client.
    """
    wanted = Filter.of(parameters)
    window = pages.Window.of(parameters, default=20, most=_MOST)
    own = Task.objects.of(client)
    if window.cursor and not own.filter(pk=window.cursor).exists():
        raise window.bad_cursor("a task of yours")
    along = window.along(own)
    if wanted.since:
        along = along.filter(id__gte=wanted.since)
    if wanted.until:
        along = along.filter(id__lt=wanted.until)
    walks = [walk for status in sorted(wanted.statuses) for walk in along.walks(status)] or [along]
    chunk = _CHUNK if wanted.model or wanted.metadata else window.limit + 1
    merged = heapq.merge(*(_rows(walk, chunk) for walk in walks), key=lambda row: row.id, reverse=not window.ascending)
    ids: list[str] = []
    has_more, come_to = False, None
    for looked_at, row in enumerate(merged, 1):
        if wanted.admits(row):
            if len(ids) == window.limit:
                has_more = True
                break
            ids.append(row.id)
        if looked_at == _MOST_LOOKED_AT:
            has_more, come_to = True, row.id
            break
    tasks = own.select_related("response").order_by().in_bulk(ids)
    found = [tasks[task_id] for task_id in ids if task_id in tasks]
    return window.page(found, has_more=has_more, come_to=come_to)


def _rows(walk: TaskQuerySet, chunk: int) -> Iterator[_Row]:
    """Yield the rows of one walk, read a chunk at a time as they are needed."""
    rows = walk.values_list("id", "model", "metadata")
    yield from map(_Row._make, rows[:_MOST_LOOKED_AT].iterator(chunk_size=chunk))


def _seconds(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InvalidRequest(f"{name} must be a time in whole Unix seconds.", param=name, code="invalid_value")
    return int(text)


def _statuses(parameters: QueryDict) -> set[str]:
    values = parameters.getlist("status") + parameters.getlist("status[]")
    statuses = {status for value in values for status in value.split(",")}
    for status in statuses:
        if status not in list(Status):
            raise InvalidRequest(f"There is no status {status[:40]!r}.", param="status")
    return statuses
