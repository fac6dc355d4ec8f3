"""The newest tasks, found along an index however many there are, and what each of them waits for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any

from django.core.management.color import Style

from clients_app import lookup
from clients_app.models import Client
from tasks_app import lookup as own_lookup
from tasks_app import serializers
from tasks_app.console import colours, figures, tables
from tasks_app.console.tables import Column
from tasks_app.models import Task, TaskQuerySet
from tasks_app.states import FINISHED, Status

# Whoever stands behind so many is told that, and not counted.
_FARTHEST = 1000


@dataclass(frozen=True)
class Filter:
    """Which tasks are wanted; ``None`` is any.

    Attributes:
        client: its name or id.
        older_than: only tasks that were made before the one with this id.
        newer_than: only tasks that were made after it; then the oldest of them.
    """

    status: str | None = None
    client: str | None = None
    model: str | None = None
    policy: str | None = None
    older_than: str | None = None
    newer_than: str | None = None


def newest(wanted: Filter, limit: int) -> tuple[list[Task], bool]:
    """Return up to `limit` tasks, newest first, and whether there are more in the direction of the cursor.

    Raises:
        UnknownClient: see its message.
    """
    tasks = _narrowed(wanted)
    ascending = wanted.newer_than is not None
    order = "id" if ascending else "-id"
    walks = tasks.walks(wanted.status) if wanted.status else [tasks]
    if wanted.status in FINISHED:
        # Of these the index is by client.
        walks = [walk.filter(client=pk) for walk in walks for pk in Client.objects.values_list("pk", flat=True)]
    found = list(chain.from_iterable(walk.order_by(order)[: limit + 1] for walk in walks))
    found.sort(key=attrgetter("id"), reverse=not ascending)
    shown = found[:limit]
    return sorted(shown, key=attrgetter("id"), reverse=True), len(found) > limit


def _narrowed(wanted: Filter) -> TaskQuerySet:
    tasks = Task.objects.kept().select_related("client")
    if wanted.client:
        tasks = tasks.of(lookup.find(wanted.client))
    if wanted.model:
        tasks = tasks.filter(model=wanted.model)
    if wanted.policy:
        tasks = tasks.filter(on_restart=wanted.policy)
    if wanted.older_than:
        tasks = tasks.filter(id__lt=wanted.older_than)
    if wanted.newer_than:
        tasks = tasks.filter(id__gt=wanted.newer_than)
    return tasks


def note(task: Task, place: int | None) -> str:
    """Say what `task` waits for, what it is at, or why it ended as it did.

    Args:
        task: any.
        place: in the queue, where it is not too far back to be counted.
    """
    if task.status in FINISHED:
        return task.error_code or (f"incomplete: {task.incomplete_reason}" if task.incomplete_reason else "")
    now = datetime.now(UTC)
    if task.claimable_at and task.claimable_at > now:
        return f"due in {figures.span(figures.since(now, task.claimable_at))}"
    if task.status == Status.QUEUED:
        return f"position {place}" if place else f"behind {_FARTHEST} others"
    if task.owner is None:
        return "to be resumed" if task.status == Status.RUNNING else "left over"
    if task.status == Status.CANCELLING:
        return "being stopped"
    return phase(task.progress)


def phase(progress: dict[str, Any] | None) -> str:
    """Say how far loading, prefill or replay has come."""
    if not progress:
        return ""
    name, done, total = progress.get("phase", ""), progress.get("done"), progress.get("total")
    return f"{name} {100 * done / total:.0f} %" if done is not None and total else str(name)


def items(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """Yield each task as the API shows it, with its client and the note."""
    for task in tasks:
        place = own_lookup.position(task, _FARTHEST)
        shown = serializers.task_object(task, place)
        yield {**shown, "client": {"id": task.client.id, "name": task.client.name}, "note": note(task, place)}


def lines(shown: Sequence[dict[str, Any]], style: Style, width: int) -> Iterator[str]:
    """Yield the table of what ``items`` returned."""
    paints = [colours.of_status(style, item["status"]) for item in shown]
    now = datetime.now(UTC).timestamp()

    def column(title: str, cells: list[str], **options: Any) -> Column:
        return Column(title, list(map(tables.tame, cells)), **options)

    table = [
        column("ID", [item["id"] for item in shown], least=9, keeps_end=True),
        column("STATUS", [item["status"] for item in shown], paints=paints),
        column("CLIENT", [item["client"]["name"] for item in shown], least=6, rank=3),
        column("MODEL", [item["model"] for item in shown], least=8, rank=4),
        column("POLICY", [item["on_restart"] for item in shown], rank=5),
        column("ATT", [str(item["attempt"]) for item in shown], rank=6, right=True),
        column("IN/OUT", [_tokens(item["usage"]) for item in shown], rank=2, right=True),
        column("AGE", [figures.span(max(0.0, now - item["created_at"])) for item in shown], rank=1, right=True),
        column("TOOK", [_took(item, now) for item in shown], rank=7, right=True),
        column("NOTE", [item["note"] for item in shown], least=12),
    ]
    yield from tables.lines(table, width, style.MIGRATE_LABEL)


def _tokens(usage: dict[str, Any]) -> str:
    return f"{usage['input_tokens']}/{usage['output_tokens']}"


def _took(item: dict[str, Any], now: float) -> str:
    if item["started_at"] is None:
        return ""
    return figures.span(max(0.0, (item["finished_at"] or now) - item["started_at"]))
