"""A lock between processes that the kernel releases with its holder.

A semaphore of ``multiprocessing`` stays taken when its holder is killed.
"""

import fcntl
import os
from types import TracebackType


class ProcessLock:
    """Stands in for an ``RLock`` of ``multiprocessing`` between processes that are forked after it was made.

    In each process one thread alone may use it. The processes that use it fork no others which outlive them.
    """

    def __init__(self) -> None:
        # A file without a name: what is left of an earlier cluster cannot hold the lock of the next one.
        self._file = os.memfd_create("process-lock")
        self._user: int | None = None
        self._descriptor = -1
        self._depth = 0

    def acquire(self) -> bool:
        """Wait until no other process holds it, and take it once more."""
        if self._user != os.getpid():
            # Parent and child would hold together what is locked through a descriptor that they share.
            self._descriptor = os.open(f"/proc/self/fd/{self._file}", os.O_RDWR | os.O_CLOEXEC)
            self._user, self._depth = os.getpid(), 0
        if self._depth == 0:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self._depth += 1
        return True

    def release(self) -> None:
        """Give it back, once for each time that it was taken."""
        assert self._user == os.getpid()
        assert self._depth > 0
        self._depth -= 1
        if self._depth == 0:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
