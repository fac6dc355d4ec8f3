"""How many cores there are for an engine."""

import math
import os
from pathlib import Path

from models_app.engines import control_groups

_ANY = 1 << 16


def usable_cores(root: Path = Path("/")) -> int:
    """Count the cores that this process may run on, or as many as its container or unit may use the time of.

    Two threads of one core share its arithmetic and count once.
    """
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return min(len(cores), _quota(root))


def default_threads() -> int:
    """One thread for each core but one, which the rest of the service needs."""
    return max(1, usable_cores() - 1)


def _quota(root: Path) -> int:
    """The processor time a second that the groups above this process are granted, in cores, rounded up."""
    return min(
        (_of_group(version, directory) for version, directory in control_groups.above("cpu", root)), default=_ANY
    )


def _of_group(version: int, directory: Path) -> int:
    # "200000 100000" are two cores; where there is no limit, the first is "max", or -1 in two files of version 1.
    names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    try:
        granted, period = map(int, " ".join((directory / name).read_text() for name in names).split())
    except (OSError, ValueError):
        return _ANY
    return max(1, math.ceil(granted / period)) if granted > 0 < period else _ANY
