"""What a turn costs: whose processor time it takes, and how much of the machine others take meanwhile."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bench import processes
from bench.processes import Process
from bench.service import Service
from bench.subjects import Subjects

QUIET_CORES = 0.1
"""Cores that other processes may use before a turn counts as disturbed."""

_GRAIN = 0.03
"""Seconds by which the kernel's counters, which go in hundredths, may be wrong over a dozen processes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of one turn, in seconds.

    Attributes:
        seconds: how long the turn took.
        service: by the role of the process.
        waits: how often the processes of each role went to sleep.
        client: the bench itself.
        raw: the raw loops.
        foreign: everything else on this machine, and what a hypervisor kept from it.
    """

    seconds: float
    service: dict[str, float]
    waits: dict[str, float]
    client: float
    raw: float
    foreign: float

    @property
    def is_disturbed(self) -> bool:
        """Whether others took so much of the machine that the turn's time says little."""
        return self.foreign > QUIET_CORES * self.seconds + _GRAIN


def accounted(subjects: Subjects, act: Callable[[], T], service: Service | None = None) -> tuple[T, Cost]:
    """Let one side have its turn, and return what it did and what that cost everybody.

    Args:
        subjects: what is measured.
        act: the turn.
        service: another one that has it.
    """
    service = service or subjects.service
    before, raw = service.processes(), subjects.raw_cpu()
    client, machine = time.process_time(), processes.machine_cpu()
    began = time.perf_counter()
    result = act()
    seconds = time.perf_counter() - began
    machine, client = processes.machine_cpu() - machine, time.process_time() - client
    raw = subjects.raw_cpu() - raw
    after = service.processes()
    used = grown(before, after, "cpu")
    foreign = max(machine - client - raw - sum(used.values()), 0.0)
    return result, Cost(seconds, used, grown(before, after, "waits"), client, raw, foreign)


def wait_for_quiet(deadline: float) -> None:
    """Wait until nothing else works on this machine, or until `time.monotonic()` is past the deadline."""
    look = 1.0
    while time.monotonic() < deadline:
        before = processes.machine_cpu()
        time.sleep(look)
        if processes.machine_cpu() - before <= QUIET_CORES * look:
            return


def summary(tokens: int, service: Sequence[Cost], raw: Sequence[Cost]) -> dict[str, Any]:
    """Return the costs for 1,000 tokens, and how busy the rest of the machine was, as JSON has them."""
    thousands = max(tokens, 1) / 1000
    cpu: defaultdict[str, float] = defaultdict(float)
    waits: defaultdict[str, float] = defaultdict(float)
    for cost in service:
        for role, seconds in cost.service.items():
            cpu[role] += seconds
        for role, count in cost.waits.items():
            waits[role] += count
    cpu["client"] = sum(cost.client for cost in service)
    cpu["raw loop"] = sum(cost.raw for cost in raw)
    return {
        "cpu_seconds_per_1000_tokens": {role: round(seconds / thousands, 3) for role, seconds in cpu.items()},
        "waits_per_1000_tokens": {role: round(count / thousands) for role, count in waits.items()},
        "idle_service_cores": _cores(raw, [sum(cost.service.values()) for cost in raw]),
        "foreign_cores": {
            "service": _cores(service, [cost.foreign for cost in service]),
            "raw loop": _cores(raw, [cost.foreign for cost in raw]),
        },
    }


def _cores(turns: Sequence[Cost], used: Sequence[float]) -> float:
    return round(sum(used) / sum(cost.seconds for cost in turns), 3)


def grown(before: list[Process], after: list[Process], field: str) -> dict[str, float]:
    """Return by how much one field of the processes has grown, over each role."""
    had = processes.by_role(before, field)
    return {role: value - had.get(role, 0.0) for role, value in processes.by_role(after, field).items()}
