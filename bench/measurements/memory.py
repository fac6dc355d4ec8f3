"""The memory of the whole service, idle, with the model loaded."""

import time
from collections import Counter

from bench import processes
from bench.findings import Finding
from bench.subjects import Subjects

_MEGABYTE = 1_000_000
_CEILING_MB = 600.0
_IDLE_SECONDS = 2.0


def measure(subjects: Subjects) -> list[Finding]:
    """Megabytes, as the sum of the processes' proportional set sizes.

    A page that several processes map is split between them, also with those of other services on this machine: the
    sum of the resident sizes, in which it counts fully for each, is the upper bound.
    """
    subjects.stop_raw_loops()
    time.sleep(_IDLE_SECONDS)
    before = sum(process.cpu for process in subjects.service.processes())
    time.sleep(_IDLE_SECONDS)
    members = subjects.service.processes(memory=True)
    idle_cores = (sum(process.cpu for process in members) - before) / _IDLE_SECONDS
    roles = processes.by_role(members, "pss")
    counts = Counter(process.role for process in members)
    total = sum(roles.values()) / _MEGABYTE
    largest = max(roles, key=lambda role: roles[role])
    return [
        Finding(
            "memory",
            "memory, idle",
            total,
            "MB",
            _CEILING_MB,
            is_ceiling=True,
            columns=(f"{len(members)} processes", "", f"{largest}: {roles[largest] / _MEGABYTE:.0f} MB"),
            detail={
                "pss_mb": {
                    role: {"processes": counts[role], "sum": round(size / _MEGABYTE, 1)}
                    for role, size in sorted(roles.items(), key=lambda entry: -entry[1])
                },
                "rss_mb": round(sum(process.rss for process in members) / _MEGABYTE, 1),
                "idle_cores": round(idle_cores, 4),
            },
        )
    ]
