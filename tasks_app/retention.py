"""Removing finished work (R4); unfinished work is never touched (R5), by the statements and by trigger.

Every transaction is so short, and the pause after it so long, that a worker's commit hardly waits: a task that has more
rows than fit into one is hidden first and then removed piece by piece.
"""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.db import connection, models, transaction

from lmsp_site.models import ServiceConfig
from tasks_app import queue
from tasks_app.models import IdempotencyKey, JournalEntry, Task, TaskEvent
from tasks_app.states import FINISHED

# SQLite's writers look for the lock after 1, 3, 8, 18 ms and so on: most find it free at one of the first looks.
_TRANSACTION_SECONDS = 0.008
_PAUSE = 2.0
_FEWEST_ROWS, _MOST_ROWS = 50, 10_000
_LOOK = 200
_FREE_PAGES_KEPT = 256
# What a scheduled purge takes of a worker, at least and at most, while tasks wait for one and while none does.
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 30.0


class _Pace:
    """How many rows one transaction takes: as many as fit into its time."""

    def __init__(self) -> None:
        self.rows = 10 * _FEWEST_ROWS
        self._began = 0.0

    def __enter__(self) -> int:
        self._began = time.perf_counter()
        return self.rows

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._began
        # Half the way: one slow commit says little about the next.
        fitting = self.rows * (1 + _TRANSACTION_SECONDS / seconds) / 2
        self.rows = int(min(max(fitting, _FEWEST_ROWS), _MOST_ROWS))
        time.sleep(_PAUSE * seconds)


def forget(task_id: str) -> bool:
    """Delete a finished task with its events, response and snapshot; tell whether there was one.

    An idempotency key keeps the result it has stored and loses its reference to the task.
    """
    pace = _Pace()
    last = Task.objects.filter(pk=task_id, status__in=FINISHED).values_list("last_sequence_number", flat=True).first()
    if last is None:
        return False
    if last < pace.rows:
        return bool(_delete([task_id])["tasks_deleted"])
    _hide(task_id)
    # Another caller may do the same.
    while Task.objects.filter(pk=task_id).exists():
        _remove_piece(task_id, pace)
    return True


def purge(may_go_on: Callable[[], bool] = lambda: True) -> dict[str, int]:
    """Delete what finished longer ago than the retention allows, and expired idempotency keys.

    Args:
        may_go_on: asked after each transaction; what is left then is the next purge's.

    Returns:
        ``tasks_deleted``, ``events_deleted``, ``idempotency_keys_deleted`` and ``bytes_freed``, on the disk.
    """
    deleted = Counter(tasks_deleted=0, events_deleted=0, idempotency_keys_deleted=0, bytes_freed=0)
    pace = _Pace()
    while may_go_on() and (step := _purge_tasks(pace)):
        deleted.update(step)
    while may_go_on() and (step := _purge_keys(pace)):
        deleted.update(step)
    while may_go_on() and (step := _give_back_space(pace)):
        deleted.update(step)
    return dict(deleted)


def purge_on_schedule() -> dict[str, int] | None:
    """Purge for a moment; while tasks wait for a worker, for a shorter one. What a job of the runner calls."""
    began = time.monotonic()

    def may_go_on() -> bool:
        spent = time.monotonic() - began
        if queue.stopping() or spent > _MOST_SECONDS:
            return False
        return spent < _LEAST_SECONDS or not Task.objects.count_claimable(1)

    deleted = purge(may_go_on)
    return deleted if any(deleted.values()) else None


def _purge_tasks(pace: _Pace) -> Counter[str]:
    """Delete as many of the oldest tasks as one transaction takes, or a piece of one; nothing where none is old."""
    if hidden := Task.objects.filter(purged_at__isnull=False).values_list("pk", flat=True).first():
        return _remove_piece(hidden, pace)
    before = datetime.now(UTC) - timedelta(days=ServiceConfig.current().retention_days)
    old = Task.objects.filter(status__in=FINISHED, finished_at__lt=before).order_by("finished_at")
    ids: list[str] = []
    rows = 0
    for task_id, last in old.values_list("pk", "last_sequence_number")[:_LOOK]:
        if ids and rows + last + 1 > pace.rows:
            break
        rows += last + 1
        ids.append(task_id)
    if not ids:
        return Counter()
    if rows > pace.rows:
        _hide(ids[0])
        return _remove_piece(ids[0], pace)
    with pace, transaction.atomic():
        return _delete(ids)


def _hide(task_id: str) -> None:
    """Let a finished task be gone for everybody but those who remove it."""
    Task.objects.filter(pk=task_id, status__in=FINISHED).update(purged_at=datetime.now(UTC))


def _remove_piece(task_id: str, pace: _Pace) -> Counter[str]:
    """Delete some rows of a hidden task, and with the last of them the task."""
    tables: tuple[tuple[type[models.Model], str], ...] = ((TaskEvent, "task"), (JournalEntry, "snapshot"))
    with pace as rows, transaction.atomic():
        removed: Counter[str] = Counter()
        for model, key in tables:
            some = model._default_manager.filter(**{key: task_id}).values_list("pk", flat=True)[:rows]
            ids = list(some)
            if model is TaskEvent:
                removed["events_deleted"] += len(ids)
            model._default_manager.filter(pk__in=ids)._raw_delete(connection.alias)
            rows -= len(ids)
            if rows <= 0:
                return removed
        # Not their sum, which drops zeros: an empty step says that nothing is old, and another purge may be faster.
        removed.update(_delete([task_id]))
        return removed


def _delete(task_ids: list[str]) -> Counter[str]:
    _, deleted = Task.objects.filter(pk__in=task_ids, status__in=FINISHED).delete()
    tasks, events = deleted.get(Task._meta.label, 0), deleted.get(TaskEvent._meta.label, 0)
    return Counter(tasks_deleted=tasks, events_deleted=events)


def _purge_keys(pace: _Pace) -> Counter[str]:
    expired = IdempotencyKey.objects.filter(expires_at__lte=datetime.now(UTC)).order_by("expires_at")
    with pace as rows:
        keys = IdempotencyKey.objects.filter(pk__in=list(expired.values_list("pk", flat=True)[:rows]))
        return +Counter(idempotency_keys_deleted=keys.delete()[0])


def _give_back_space(pace: _Pace) -> Counter[str]:
    """Give free pages of the database's file back to the disk, but for some that the next tasks will fill."""
    if connection.vendor != "sqlite":
        return Counter()
    free, pages, page_size = (_pragma(name) for name in ("freelist_count", "page_count", "page_size"))
    if free <= _FREE_PAGES_KEPT:
        return Counter()
    with pace as rows:
        # Not `execute`: it takes one step of a statement without columns, and this one frees a page with each.
        connection.connection.executescript(f"PRAGMA incremental_vacuum({min(rows, free - _FREE_PAGES_KEPT)})")
    # Nothing where the file was made without auto_vacuum.
    return +Counter(bytes_freed=(pages - _pragma("page_count")) * page_size)


def _pragma(name: str) -> int:
    with connection.cursor() as cursor:
        return int(cursor.execute(f"PRAGMA {name}").fetchone()[0])
