"""Processes by session, and processes that end with their parent (Linux).

A child that leads a session of its own can be ended with everything that it started, whatever process groups that
is spread over.
"""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

# Some programs walk through all descriptors that they might have.
_MOST_FILES = 65_536
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def raise_file_limit() -> None:
    """Let this process, and those that it starts, have as many files open as the system lets it raise the limit to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def end_with_parent(signum: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends."""
    if _prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def ends_with_parent(signum: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return a ``preexec_fn`` for a child that gets a signal when the calling thread ends.

    Everything is looked up before the fork, so that the child takes no lock that a thread of its parent held.
    """
    parent = os.getpid()
    getppid, exit_now, set_signal = os.getppid, os._exit, end_with_parent

    def in_child() -> None:
        set_signal(signum)
        # The parent may have died before the kernel was told.
        if getppid() != parent:
            exit_now(1)

    return in_child


def session_members(session: int) -> list[int]:
    """Return the ids of the processes that run in a session; one that only waits to be reaped does not."""
    members = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                stat = (directory / "stat").read_text()
            except OSError:
                continue
            # The second field is the program's name, in parentheses, and may hold any character.
            state, _parent, _group, its_session = stat.rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                members.append(int(directory.name))
    return members


def signal_session(session: int, signum: signal.Signals) -> None:
    """Send a signal to each process of a session.

    The session's leader must not have been reaped: until then no other session can have its number.
    """
    for pid in session_members(session):
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            continue


def kill_session(session: int, timeout: float = 5) -> list[int]:
    """Kill every process of a session and return those that are still there after ``timeout`` seconds.

    The session's leader must not have been reaped: until then no other session can have its number.
    """
    deadline = time.monotonic() + timeout
    while members := session_members(session):
        if time.monotonic() > deadline:
            return members
        # Again and again: a process may fork between the look and the kill.
        signal_session(session, signal.SIGKILL)
        time.sleep(0.005)
    return []


def age(pid: int) -> float | None:
    """Return the seconds for which a process has run; ``None`` if there is none."""
    started = _started_after_boot(pid)
    return None if started is None else max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def start_time(pid: int) -> float | None:
    """Return when a process started, in Unix seconds, the same at each call; ``None`` if there is none."""
    started = _started_after_boot(pid)
    if started is None:
        return None
    stat = Path("/proc/stat").read_text().splitlines()
    return started + next(int(line.split()[1]) for line in stat if line.startswith("btime "))


def _started_after_boot(pid: int) -> float | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name, in parentheses, and may hold any character.
    return int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
