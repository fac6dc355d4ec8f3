"""Wake-ups between the processes of one host: datagrams that say "look again", and nothing else.

The database is the truth; a lost datagram costs the listener the wait until its next look, never an event.
"""

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import transaction

from models_app.engines.wire import socket_address

_TASKS = "tasks"
_QUEUE = "queue"
_MAX_DATAGRAM = 64
_FEW = 8
# In place of a task's id: so many have changed that everyone should look.
EVERYTHING = "*"


def after_commit(*task_ids: str) -> None:
    """Once the present transaction is committed, tell whoever follows one of the tasks to read on."""
    payloads = [task_id.encode() for task_id in task_ids] if len(task_ids) <= _FEW else [EVERYTHING.encode()]
    transaction.on_commit(partial(_send, _TASKS, payloads))


def queue_after_commit() -> None:
    """Once the present transaction is committed, tell the runner that there may be something to claim."""
    transaction.on_commit(partial(_send, _QUEUE, [b""]))


def owners_after_commit(owners: Iterable[str]) -> None:
    """Once the present transaction is committed, tell the workers that hold tasks to see whether they still do."""
    for owner in owners:
        transaction.on_commit(partial(_send, _topic_of(owner), [b""]))


def forget(owner: str) -> None:
    """Remove what a worker that is dead has left behind."""
    for path in _directory().glob(f"{_topic_of(owner)}-*"):
        path.unlink(missing_ok=True)


def _topic_of(owner: str) -> str:
    # Of its random part as much as is surely its own: a socket's address has to be short.
    return f"w{owner[-8:]}"


@cache
def _directory() -> Path:
    # Beside the database where the path is short enough for a socket address.
    directory = Path(socket_address(settings.LMSP.run_dir, "wake-tasks-00000000")).parent / "wake"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


@cache
def _sender() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    return sender


def _send(topic: str, payloads: list[bytes]) -> None:
    sender = _sender()
    directory = _directory()
    for name in os.listdir(directory):  # noqa: PTH208 - after every commit: paths cost more than the datagrams
        if not name.startswith(f"{topic}-"):
            continue
        try:
            for payload in payloads:
                sender.sendto(payload, f"{directory}/{name}")
        except BlockingIOError:
            pass  # Its buffer is full of wake-ups already.
        except (ConnectionRefusedError, FileNotFoundError):
            (directory / name).unlink(missing_ok=True)  # Its process is gone.


class Listener:
    """The receiving end of one process, for one topic."""

    def __init__(self, topic: str) -> None:
        self._path = Path(tempfile.mktemp(prefix=f"{topic}-", dir=_directory()))  # noqa: S306 - bind() is exclusive
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        self._path.chmod(0o600)

    @classmethod
    def for_tasks(cls) -> Self:
        """Hear the ids of tasks whose logs have grown."""
        return cls(_TASKS)

    @classmethod
    def for_queue(cls) -> Self:
        """Hear that something may be claimable."""
        return cls(_QUEUE)

    @classmethod
    def for_owner(cls, owner: str) -> Self:
        """Hear that a task which `owner` holds was changed by somebody else."""
        return cls(_topic_of(owner))

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a wake-up; tell whether there was one. Takes all that have come."""
        self._socket.settimeout(timeout)
        try:
            self._socket.recv(_MAX_DATAGRAM)
        except TimeoutError:
            return False
        self.take()
        return True

    def take(self) -> set[str]:
        """Return the payloads that have come, without waiting."""
        payloads = set()
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                payloads.add(self._socket.recv(_MAX_DATAGRAM).decode())
        return payloads

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
