"""Whether a process lives, by the lock that it holds on a file: the kernel drops it with the process."""

import fcntl
import os
from pathlib import Path


def is_held(path: Path) -> bool:
    """Tell whether some process holds the exclusive lock of a file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Shared: those who only ask are not in each other's way.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
