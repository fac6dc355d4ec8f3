"""How many cores there are for an engine."""

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Count the cores that this process may run on, or as many as its container may use the time of.

    Two threads of one core share its arithmetic and count once.
    """
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return min(len(cores), _quota(cgroup))


def default_threads() -> int:
    """One thread for each core but one, which the rest of the service needs."""
    return max(1, usable_cores() - 1)


def _quota(cgroup: Path) -> int:
    """The processor time a second that a container is granted, in cores; as many as one likes where it is not limited.

    That is a file of control groups of version 2, as a container sees its own: "200000 100000" are two cores.
    """
    try:
        granted, period = (cgroup / "cpu.max").read_text().split()
        return max(1, math.ceil(int(granted) / int(period)))
    except (OSError, ValueError):
        return 1 << 16
