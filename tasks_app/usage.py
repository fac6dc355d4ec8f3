"""TABLE usage: what each client has had of each model on each day, and the only writer of it.

It is written in the transaction in which a task ends, and refers to nothing: neither retention nor the deletion of a
client takes anything back. Days are those of UTC. A row is small, and a client has as many a day as it uses models.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Sum

from tasks_app.models import Usage

_ADD = (
    "INSERT INTO usage (client_id, day, model, tasks, input_tokens, output_tokens, run_ms)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (client_id, day, model) DO UPDATE SET tasks = usage.tasks + excluded.tasks,"
    " input_tokens = usage.input_tokens + excluded.input_tokens,"
    " output_tokens = usage.output_tokens + excluded.output_tokens, run_ms = usage.run_ms + excluded.run_ms"
)
_SUMS = ("tasks", "input_tokens", "output_tokens", "run_ms")


class Used(NamedTuple):
    """What a client has had: tasks that have ended, tokens, and milliseconds from first claims to ends."""

    tasks: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    run_ms: int = 0

    def plus(self, other: "Used") -> "Used":
        """Return the sum."""
        return Used(*map(sum, zip(self, other, strict=True)))


# By client and model.
Sums = dict[tuple[str, str], Used]


def today() -> date:
    """Return the day that it is, in UTC."""
    return datetime.now(UTC).date()


def count(sums: Sums, client_id: str, model: str, used: Used) -> None:
    """Take in what a task has had."""
    sums[client_id, model] = sums.get((client_id, model), Used()).plus(used)


def add(sums: Mapping[tuple[str, str], Used]) -> None:
    """Write what was counted, in the transaction of what it counts; it belongs to the day on which it is written."""
    assert connection.in_atomic_block, "what is counted and the count are one transaction"
    if sums:
        day = today().isoformat()
        rows = [(client_id, day, model, *used) for (client_id, model), used in sums.items()]
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, rows)


def listed(
    since: date, until: date, *, client_id: str | None = None, by_model: bool = False, model: str | None = None
) -> list[dict[str, Any]]:
    """Return what clients have had in some days, each day a row: the newest first.

    Args:
        since: the first day.
        until: the last day.
        client_id: of one client alone; without it each client has rows of its own.
        by_model: whether each model has a row of its own.
        model: of one model alone.
    """
    rows = Usage.objects.filter(day__gte=since, day__lte=until).order_by("-day", "client_id", "model")
    if client_id is not None:
        rows = rows.filter(client_id=client_id)
    if model is not None:
        rows = rows.filter(model=model)
    names = ["day", "client_id", *(["model"] if by_model else [])]
    if not by_model:
        rows = rows.order_by("-day", "client_id")
    # An aggregate must not be called what its field is called.
    grouped = rows.values(*names).annotate(**{f"{name}_sum": Sum(name) for name in _SUMS})
    return [{**{name: row[name] for name in names}, **{name: row[f"{name}_sum"] for name in _SUMS}} for row in grouped]


def usage_object(row: dict[str, Any]) -> dict[str, Any]:
    """Return the API's object of a row of ``listed``."""
    return {
        "object": "usage",
        "day": row["day"].isoformat(),
        "model": row.get("model"),
        "tasks": row["tasks"],
        "input_tokens": row["input_tokens"],
        "output_tokens": row["output_tokens"],
        "total_tokens": row["input_tokens"] + row["output_tokens"],
        "run_seconds": row["run_ms"] / 1000,
    }
