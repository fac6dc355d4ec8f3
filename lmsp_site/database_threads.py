"""Threads that keep their database connections, for code on the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection

T = TypeVar("T")


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
# As many as are to be committed together at most (``lmsp_site.group_commit``).
writes = DatabaseThreads(8, "writes")
