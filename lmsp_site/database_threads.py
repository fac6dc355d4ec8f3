"""Threads that keep their database connections, for code on the event loop; and how writers wait for each other."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import OperationalError, connection, transaction

T = TypeVar("T")

_door = threading.Lock()


class DatabaseThreads:
    """A pool of threads.

    Args:
        count: how many; what they cannot do at once waits.
        name: what they are called.
    """

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function` in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _usable, function, args)


def _usable(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    try:
        return function(*args)
    finally:
        # Only a connection that has failed is closed; it is opened again when it is next needed.
        connection.close_if_unusable_or_obsolete()


# Reading never waits behind what may wait for the write lock.
reads = DatabaseThreads(4, "reads")
writes = DatabaseThreads(4, "writes")


@contextmanager
def writing() -> Iterator[None]:
    """Run the body in a transaction, one thread of this process at a time and in the order of their coming.

    SQLite's own writers look for the lock now and then, each in pauses of its own: the more of them, the longer it lies
    free between two, and the luckless wait for many turns.

    Raises:
        OperationalError: the lock was not to be had for as long as a connection waits for it.
    """
    if not _door.acquire(timeout=connection.settings_dict["OPTIONS"]["timeout"]):
        raise OperationalError("database is locked")
    try:
        with transaction.atomic():
            yield
    finally:
        _door.release()
