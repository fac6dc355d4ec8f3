"""Removing finished work (R4); unfinished work is never touched (R5), by the statements and by trigger.

Every transaction is so short, and the pause after it so long, that a worker's commit hardly waits: a task that has more
rows than fit into one is hidden first and then removed piece by piece.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from clients_app.pairing import expiry
from lmsp_site.models import ServiceConfig
from tasks_app import queue
from tasks_app.models import IdempotencyKey, Task
from tasks_app.states import FINISHED

# SQLite's writers look for the lock after 1, 3, 8, 18, 33, 53 ms and so on. It is taken a ninth of the time, so that
# hardly any of them finds it so at each of the first six looks.
_TRANSACTION_SECONDS = 0.005
_PAUSE = 8.0
_FASTEST_GROWTH = 1.25
_FEWEST_ROWS, _MOST_ROWS = 50, 10_000
# Tables that may have many rows of one task, each with the column that names it, and those that have one.
_MANY_OF_A_TASK = (("task_events", "task_id"), ("task_journal", "snapshot_id"))
_ONE_OF_A_TASK = (("task_snapshots", "task_id"), ("responses", "task_id"), ("task_inputs", "task_id"))
_STATES = ", ".join(f"'{status}'" for status in sorted(FINISHED))
_LOOK = 200
_FREE_PAGES_KEPT = 256
# What a scheduled purge takes of a worker, at least and at most, while tasks wait for one and while none does.
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 30.0


class _Pace:
    """How many rows one transaction takes: as many as fit into its time."""

    def __init__(self) -> None:
        self.rows = 10 * _FEWEST_ROWS

    @contextmanager
    def transaction(self) -> Iterator[int]:
        """Run the body in a transaction of so many rows, and pause."""
        with transaction.atomic():
            # From here on others wait.
            began = time.perf_counter()
            yield self.rows
        self.keep(time.perf_counter() - began)

    def keep(self, seconds: float) -> None:
        """Learn from how long others may have waited, and leave the database to them for longer."""
        # Half the way, since one slow commit says little about the next; and up in small steps, for the same reason.
        fitting = self.rows * min((1 + _TRANSACTION_SECONDS / seconds) / 2, _FASTEST_GROWTH)
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
    """Delete what finished longer ago than the retention allows, expired idempotency keys and expired pairings.

    Args:
        may_go_on: asked after each transaction; what is left then is the next purge's.

    Returns:
        ``tasks_deleted``, ``events_deleted``, ``idempotency_keys_deleted``, ``pairings_deleted``, and on the disk
        ``bytes_freed``.
    """
    deleted = Counter(tasks_deleted=0, events_deleted=0, idempotency_keys_deleted=0, pairings_deleted=0, bytes_freed=0)
    pace = _Pace()
    with _no_wait_for_the_disk():
        while may_go_on() and (step := _purge_tasks(pace)):
            deleted.update(step)
        while may_go_on() and (step := _purge_keys(pace)):
            deleted.update(step)
        while may_go_on() and (step := _purge_pairings(pace)):
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
    before = datetime.now(UTC) - timedelta(days=ServiceConfig.setting("retention_days"))
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
    with pace.transaction():
        return _delete(ids)


def _hide(task_id: str) -> None:
    """Let a finished task be gone for everybody but those who remove it."""
    Task.objects.filter(pk=task_id, status__in=FINISHED).update(purged_at=datetime.now(UTC))


def _remove_piece(task_id: str, pace: _Pace) -> Counter[str]:
    """Delete some rows of a hidden task, and with the last of them the task."""
    removed: Counter[str] = Counter()
    with pace.transaction() as rows, connection.cursor() as cursor:
        for table, column in _MANY_OF_A_TASK:
            some = f"SELECT id FROM {table} WHERE {column} {_finished_among([task_id])} LIMIT {rows}"  # noqa: S608
            cursor.execute(f"DELETE FROM {table} WHERE id IN ({some})", [task_id])  # noqa: S608
            if table == "task_events":
                removed["events_deleted"] += cursor.rowcount
            rows -= cursor.rowcount
            if rows <= 0:
                return removed
        # Not their sum, which drops zeros: an empty step says that nothing is old, and another purge may be faster.
        removed.update(_delete([task_id]))
        return removed


def _delete(task_ids: Sequence[str]) -> Counter[str]:
    """Delete finished tasks with all that is theirs; part of a transaction."""
    those = _finished_among(task_ids)
    deleted: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for table, column in (*_MANY_OF_A_TASK, *_ONE_OF_A_TASK):
            cursor.execute(f"DELETE FROM {table} WHERE {column} {those}", task_ids)  # noqa: S608
            if table == "task_events":
                deleted["events_deleted"] = cursor.rowcount
        cursor.execute(f"UPDATE idempotency_keys SET task_id = NULL WHERE task_id {those}", task_ids)  # noqa: S608
        cursor.execute(f"DELETE FROM tasks WHERE id {those}", task_ids)  # noqa: S608
        deleted["tasks_deleted"] = cursor.rowcount
    return deleted


def _finished_among(task_ids: Sequence[str]) -> str:
    """Return the end of a condition: an id of one of these tasks, and of none that has not finished (R5)."""
    given = ", ".join(["%s"] * len(task_ids))
    return f"IN (SELECT id FROM tasks WHERE id IN ({given}) AND status IN ({_STATES}))"  # noqa: S608


def _purge_keys(pace: _Pace) -> Counter[str]:
    expired = IdempotencyKey.objects.filter(expires_at__lte=datetime.now(UTC)).order_by("expires_at")
    with pace.transaction() as rows:
        keys = IdempotencyKey.objects.filter(pk__in=list(expired.values_list("pk", flat=True)[:rows]))
        return +Counter(idempotency_keys_deleted=keys.delete()[0])


def _purge_pairings(pace: _Pace) -> Counter[str]:
    with pace.transaction() as rows:
        return +Counter(pairings_deleted=expiry.remove_expired(rows))


def _give_back_space(pace: _Pace) -> Counter[str]:
    """Give free pages of the database's file back to the disk, but for some that the next tasks will fill."""
    if connection.vendor != "sqlite":
        return Counter()
    free, pages, page_size = (_pragma(name) for name in ("freelist_count", "page_count", "page_size"))
    if free <= _FREE_PAGES_KEPT:
        return Counter()
    began = time.perf_counter()
    # Not `execute`: it takes one step of a statement without columns, and this one frees a page with each.
    connection.connection.executescript(f"PRAGMA incremental_vacuum({min(pace.rows, free - _FREE_PAGES_KEPT)})")
    pace.keep(time.perf_counter() - began)
    # Nothing where the file was made without auto_vacuum.
    return +Counter(bytes_freed=(pages - _pragma("page_count")) * page_size)


@contextmanager
def _no_wait_for_the_disk() -> Iterator[None]:
    """Let no commit wait for the disk while it keeps others waiting: what a power cut brings back is purged again."""
    if connection.vendor != "sqlite":
        yield
        return
    synchronous = _pragma("synchronous")
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous=NORMAL")
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA synchronous={synchronous}")


def _pragma(name: str) -> int:
    with connection.cursor() as cursor:
        return int(cursor.execute(f"PRAGMA {name}").fetchone()[0])
