"""The announcement that this service is stopping: a lock, which the kernel drops with the process that made it.

No announcement can be left over by a process that was killed and refuse work for ever. The lock is flock(2)'s, so
that `flock(1)` makes it too, where the service's processes are started by hand.
"""

import fcntl
import os
from pathlib import Path

from lmsp_site import file_lock

_LOCK = "stopping.lock"


def announce(run_dir: Path) -> None:
    """Announce the stop until this process ends. To be called after its last fork: a child would hold it as well."""
    descriptor = os.open(run_dir / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_announced(run_dir: Path) -> bool:
    """Tell whether a stop is announced; three system calls."""
    try:
        return file_lock.is_held(run_dir / _LOCK)
    except FileNotFoundError:
        return False
