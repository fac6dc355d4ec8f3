"""Group commit: what several threads want to write while one of them commits is written in one transaction after it.

The disk is waited for once for all of them, and SQLite's lock is asked for once: its own writers look for the lock now
and then, each in pauses of its own, so that it lies free between two of them and the luckless wait for many turns.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import OperationalError, connection, transaction

T = TypeVar("T")


class _Write:
    """What one thread wants to have written, and what became of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        # Set when it is done, or when this thread is to write for all that wait.
        self.called = threading.Event()

    def alone(self) -> None:
        """Write it in a transaction of its own."""
        try:
            with transaction.atomic():
                self.result = self.function()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asked for it
            self.error = error


_lock = threading.Lock()
_waiting: list[_Write] = []
_has_leader = False


def write(function: Callable[[], T]) -> T:
    """Run `function` in a transaction and return its result once that is committed.

    It may run in another thread, beside others in the same transaction; where one of those fails, it runs once more,
    alone. So it must change nothing but the database, and it sees what those before it have written.

    Raises:
        OperationalError: the lock was not to be had for as long as a connection waits for it; or what else the database
            has refused the whole transaction for. Nothing is stored.
    """
    global _has_leader
    mine = _Write(function)
    with _lock:
        _waiting.append(mine)
        leads, _has_leader = not _has_leader, True
    if not leads:
        _wait(mine)
    if not mine.is_done:
        _lead()
    if mine.error is not None:
        raise mine.error
    result: T = mine.result
    return result


def _wait(mine: _Write) -> None:
    """Wait until `mine` is done, or its thread has to lead."""
    if mine.called.wait(connection.settings_dict["OPTIONS"]["timeout"]):
        return
    with _lock:
        # It may have been called since, or be in the transaction that is under way.
        gives_up = mine in _waiting and not mine.called.is_set()
        if gives_up:
            _waiting.remove(mine)
    if gives_up:
        raise OperationalError("database is locked")
    mine.called.wait()


def _lead() -> None:
    """Write for all that wait, and call the next leader, if more have come meanwhile."""
    global _has_leader
    with _lock:
        group = _waiting.copy()
        _waiting.clear()
    try:
        _carry_out(group)
    finally:
        with _lock:
            called = group + _waiting[:1]
            _has_leader = bool(_waiting)
        for one in called:
            one.called.set()


def _carry_out(group: list[_Write]) -> None:
    if len(group) == 1 or not _together(group):
        for one in group:
            one.alone()
    for one in group:
        one.is_done = True


def _together(group: list[_Write]) -> bool:
    """Write all in one transaction; tell whether there is nothing left to do."""
    try:
        with transaction.atomic():
            results = [one.function() for one in group]
    except OperationalError as error:
        # Locked, full or broken: one after the other they would fail as well, each after its own wait.
        for one in group:
            one.error = error
        return True
    except Exception:  # noqa: BLE001 - whose error it is shows when each is alone
        return False
    for one, result in zip(group, results, strict=True):
        one.result = result
    return True
