"""Who holds a task, and the proof that they are dead: a lock on a file, which the kernel drops with its process.

One that lives and hangs is seen by what it last wrote into that file.
"""

import fcntl
import os
import secrets
import signal
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from django.conf import settings

from lmsp_site import file_lock
from tasks_app import wakeup

_BEAT_SECONDS = 1.0
_last_beat = 0.0


def _directory() -> Path:
    directory = Path(settings.LMSP.run_dir) / "owners"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


@cache
def _own(pid: int) -> tuple[str, int]:
    name = f"worker-{pid}-{secrets.token_hex(6)}"
    descriptor = os.open(_directory() / name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return name, descriptor


def own_name() -> str:
    """Return the name under which this process owns tasks; from the first call on it can be proven alive.

    To be called after the last fork: a lock taken before would live on in the children.
    """
    return _own(os.getpid())[0]


def is_own(owner: str) -> bool:
    """Tell whether this process is the one called `owner`."""
    return owner.startswith(f"worker-{os.getpid()}-")


def beat() -> None:
    """Show that this process goes on with its work; may be called as often as one likes."""
    global _last_beat
    now = time.monotonic()
    if now >= _last_beat + _BEAT_SECONDS:
        _last_beat = now
        _, descriptor = _own(os.getpid())
        with suppress(OSError):  # A full disk.
            # The clock of all processes of this machine that no one can set.
            os.pwrite(descriptor, b"%020.3f" % now, 0)


def silence(owner: str) -> float:
    """Return for how many seconds a living `owner` has shown nothing; 0 if it has never begun to."""
    try:
        said = float((_directory() / owner).read_bytes() or 0)
    except (FileNotFoundError, ValueError):
        said = 0.0
    return time.monotonic() - said if said else 0.0


def kill(owner: str) -> None:
    """End the process called `owner`, which is alive: its lock says so, so that the number is still its own."""
    with suppress(ProcessLookupError):
        os.kill(int(owner.split("-")[1]), signal.SIGKILL)


def is_dead(owner: str) -> bool:
    """Tell whether the process called `owner` has ended. Only a lock that nobody holds proves it."""
    try:
        return not file_lock.is_held(_directory() / owner)
    except FileNotFoundError:
        return True  # Removed by a recovery that has proven it, or the data directory was moved without run/.


def living() -> list[str]:
    """Return the names of all owners that live, in no order."""
    return [path.name for path in _directory().iterdir() if not is_dead(path.name)]


def anybody_lives() -> bool:
    """Tell whether there is a living owner at all."""
    return any(not is_dead(path.name) for path in _directory().iterdir())


def forget_dead() -> None:
    """Remove the lock files of owners that have ended and hold no task any more."""
    for path in _directory().iterdir():
        if is_dead(path.name):
            wakeup.forget(path.name)
            path.unlink(missing_ok=True)
