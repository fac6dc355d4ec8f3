"""What work does while the disk is full or the database locked: it waits, or goes on without the write."""

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import DatabaseError

from lmsp_site.errors import storage_error
from tasks_app import ownership, queue

logger = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_SECONDS = 0.25
# With the wait for the lock itself, far below the silence after which a worker is taken to hang.
_LONGEST_RETRY_SECONDS = 5.0


class Stopping(Exception):
    """The service is going down; the task stays as it is, for the next start's recovery."""


def persist(write: Callable[[], T], about: dict[str, Any]) -> T:
    """Make a write happen, however long the storage fails; it is there at most 5 s after the fault has gone.

    Args:
        write: guarded, so that repeating it where its success is in doubt does no harm.
        about: what the log says beside each try.

    Raises:
        Stopping: the service is going down before it could be written.
    """
    delay = _RETRY_SECONDS
    while True:
        try:
            return write()
        except DatabaseError as error:
            if storage_error(error) is None:
                raise
            logger.warning("waiting for the storage", extra=about | {"error": str(error)})
            if queue.stopping():
                raise Stopping from error
            ownership.beat()
            time.sleep(delay)
            delay = min(2 * delay, _LONGEST_RETRY_SECONDS)


def unless_it_fails(call: Callable[[], T], *, otherwise: T) -> T:
    """Do what the work can go on without: a full disk or a locked database must not end it."""
    try:
        return call()
    except DatabaseError as error:
        if storage_error(error) is None:
            raise
        return otherwise
