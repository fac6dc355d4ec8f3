"""Which tasks a page of the admin's list holds, found in bounded time however many there are.

Ids sort by age. Without a filter, by client, by state, and by age a page is the beginning of a range of an index.
Model, policy, metadata and job have no index: they are looked for among the next `MOST_LOOKED_AT` tasks, and the
page tells where to go on.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db import connection

from tasks_app.models import Priority
from tasks_app.states import FINISHED

PAGE = 40
MOST_LOOKED_AT = 10_000
MOST_COUNTED = 10_000
# Greater than every character of an id.
_LAST = "~"
_JOB = re.compile("[0-9a-f]{32}")

_COLUMNS = "id, purged_at"
# Of finished tasks the index is by client: of each its newest, then the newest of these.
_FINISHED_OF_EACH = (
    f"SELECT {_COLUMNS} FROM tasks WHERE id IN (SELECT t.id FROM clients c JOIN tasks t ON t.id IN ("  # noqa: S608
    "SELECT id FROM tasks WHERE client_id = c.id AND status = %s AND finished_at IS NOT NULL AND id < %s AND id >= %s"
    " ORDER BY id DESC LIMIT %s))"
)


@dataclass(frozen=True)
class Wanted:
    """Which tasks are wanted; what is empty is any.

    Attributes:
        since: the least id, see ``ids.first_id_at``.
        before: only tasks that were made before the one with this id.
        begin: how their ids begin.
        metadata: a text that stands in their metadata.
        job: the id of the runner's job that ran them last.
    """

    status: str = ""
    client: str = ""
    model: str = ""
    policy: str = ""
    since: str = ""
    before: str = ""
    begin: str = ""
    metadata: str = ""
    job: str = ""

    @classmethod
    def said(cls, text: str, **filters: str) -> "Wanted":
        """Read what a person types: how a task's or a response's id begins, a job's id, or a part of the metadata."""
        text = text.strip()
        if text.startswith(("task_", "resp_")):
            return cls(begin=f"task_{text[5:].rstrip('….').lower()}", **filters)
        if _JOB.fullmatch(text):
            return cls(job=text, **filters)
        return cls(metadata=text, **filters)


class Found(NamedTuple):
    """One page.

    Attributes:
        ids: newest first.
        older: the id before which to go on; ``None`` at the end.
        looked_at: how many tasks were looked at, where not all that are wanted can have been found.
    """

    ids: list[str]
    older: str | None
    looked_at: int | None = None


def find(wanted: Wanted, limit: int = PAGE, most: int = MOST_LOOKED_AT) -> Found:
    """Return the next page of up to `limit` tasks, having looked at `most` where no index helps."""
    conditions, values = _conditions(wanted)
    if not conditions:
        source, arguments = _walk(wanted, limit + 1)
        ids = _ids(f"SELECT id FROM ({source}) WHERE purged_at IS NULL ORDER BY id DESC LIMIT %s", arguments, limit + 1)  # noqa: S608
        return Found(ids[:limit], ids[limit - 1] if len(ids) > limit else None)
    where, arguments = _range(wanted)
    # Along the index alone, so that the way to there is bounded and the walk can end as soon as the page is full.
    end = _row(f"SELECT id FROM tasks WHERE {where} ORDER BY id DESC LIMIT 1 OFFSET %s", [*arguments, most - 1])  # noqa: S608
    where, arguments = _range(replace(wanted, since=end[0] if end else wanted.since))
    where = " AND ".join([where, "purged_at IS NULL", *conditions])
    ids = _ids(f"SELECT id FROM tasks WHERE {where} ORDER BY id DESC LIMIT %s", [*arguments, *values], limit + 1)  # noqa: S608
    if len(ids) > limit:
        return Found(ids[:limit], ids[limit - 1])
    return Found(ids, end[0], most) if end else Found(ids, None)


def _conditions(wanted: Wanted) -> tuple[list[str], list[Any]]:
    """Return what no index helps with; the state too, where something else has to be looked for anyway."""
    found = [("model = %s", wanted.model), ("on_restart = %s", wanted.policy), ("job_id = %s", wanted.job)]
    conditions = [(text, value) for text, value in found if value]
    if wanted.metadata:
        conditions.append(("instr(lower(metadata), lower(%s)) > 0", wanted.metadata))
    if conditions and wanted.status:
        conditions.append(("status = %s", wanted.status))
    return [text for text, _ in conditions], [value for _, value in conditions]


def _range(wanted: Wanted) -> tuple[str, list[Any]]:
    """Return the condition that an index has in the order of the ids: some time, of somebody."""
    where, values = ["id < %s", "id >= %s"], [wanted.before or _LAST, max(wanted.since, wanted.begin)]
    if wanted.begin:
        values[0] = min(values[0], wanted.begin + _LAST)
    if wanted.client:
        where.append("client_id = %s")
        values.append(wanted.client)
    return " AND ".join(where), values


def _walk(wanted: Wanted, limit: int) -> tuple[str, list[Any]]:
    """Return a query for the newest tasks of a range, at least `limit` where there are as many, and its values."""
    where, values = _range(wanted)
    if wanted.status in FINISHED and not wanted.client:
        return _FINISHED_OF_EACH, [wanted.status, *values, limit]
    if not wanted.status:
        return _newest(where), [*values, limit]
    if wanted.status in FINISHED:
        return _newest(f"{where} AND status = %s AND finished_at IS NOT NULL"), [*values, wanted.status, limit]
    # Of the unfinished ones an index has each priority in the order of the ids.
    one = _newest(f"{where} AND status = %s AND finished_at IS NULL AND priority = %s")
    each = [value for priority in Priority for value in (*values, wanted.status, priority.value, limit)]
    return " UNION ALL ".join([f"SELECT * FROM ({one})"] * len(Priority)), each  # noqa: S608


def _newest(where: str) -> str:
    return f"SELECT {_COLUMNS} FROM tasks WHERE {where} ORDER BY id DESC LIMIT %s"  # noqa: S608


def about_how_many() -> int:
    """Return how many tasks there are, or a few more: they come and go in the order of their rows."""
    first, last = _row("SELECT (SELECT min(rowid) FROM tasks), (SELECT max(rowid) FROM tasks)", [])
    return 0 if last is None else int(last - first + 1)


def unfinished(most: int = MOST_COUNTED) -> dict[str, int]:
    """Return how many tasks are in each unfinished state, counted up to `most`."""
    query = "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE status = %s AND finished_at IS NULL LIMIT %s)"
    states = ("queued", "loading", "running", "cancelling")
    return {state: _row(query, [state, most])[0] for state in states}


def _ids(query: str, values: list[Any], limit: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(query, [*values, limit])
        return [row[0] for row in cursor.fetchall()]


def _row(query: str, values: list[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchone()
