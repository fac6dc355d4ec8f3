"""How long a stream stands still, and how long a writer waits, while something else works on the database."""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

from bench import costs
from bench.client import Answer
from bench.findings import Finding
from bench.subjects import Subjects

QUIET_SECONDS = 20.0
"""How long a service is watched that has nothing to do but to stream."""

_PROBE = Path(__file__).with_name("lock_probe.py")
_TOKENS = 192
_WINDOW_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stalls:
    """What was seen while something was done.

    Attributes:
        seconds: how long that took.
        gaps: milliseconds between two pieces of text at the reader of a stream, and when each ended.
        waits: milliseconds for which a writer waited that came every few milliseconds.
        foreign_cores: processors that others used meanwhile.
    """

    seconds: float
    gaps: list[tuple[float, float]]
    waits: list[float]
    foreign_cores: float

    @property
    def longest_gap(self) -> float:
        """In milliseconds."""
        return max(gap for _, gap in self.gaps)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON.

        The longest of a long time is longer than that of a short one: so it is told for each ten seconds, too.
        """
        windows: dict[int, float] = {}
        for at, gap in self.gaps:
            window = int(at / _WINDOW_SECONDS)
            windows[window] = max(windows.get(window, 0.0), gap)
        return {
            "seconds": round(self.seconds, 1),
            "gap_ms": _distribution([gap for _, gap in self.gaps]),
            "longest_gap_of_10_s_ms": round(statistics.median(windows.values()), 1),
            "writer_wait_ms": _distribution(self.waits),
        }


def watch(subjects: Subjects, act: Callable[[], T]) -> tuple[T, Stalls]:
    """Have one response after the other streamed while `act` runs in a thread; return what it returned, and the stalls.

    Gaps count from the first to the last piece of text of one response: what lies before is prefill.
    """

    def acted() -> tuple[T, float, float, list[float]]:
        with LockProbe(subjects.service.database) as probe:
            began = time.perf_counter()
            result = act()
            ended = time.perf_counter()
        return result, began, ended, probe.waits

    def streamed() -> tuple[tuple[T, float, float, list[float]], list[Answer]]:
        answers = []
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(acted)
            while not running.done():
                answers += subjects.service.respond(subjects.prompts(1), _TOKENS)
        return running.result(), answers

    children = _cpu_of_children()
    ((result, began, ended, waits), answers), cost = costs.accounted(subjects, streamed)
    # The command and the probe are the bench's own as well.
    foreign = max(cost.foreign - (_cpu_of_children() - children), 0.0) / cost.seconds
    gaps = gaps_between((answer.deltas_at for answer in answers), began, ended)
    return result, Stalls(ended - began, gaps, waits, foreign)


def gaps_between(streams: Iterable[Sequence[float]], began: float, ended: float) -> list[tuple[float, float]]:
    """Return when each gap between two arrivals ended, in seconds since `began`, and its length in milliseconds.

    Of each stream those alone count that lie wholly between the two moments.
    """
    return [
        (after - began, (after - before) * 1000)
        for arrivals in streams
        for before, after in pairwise(arrivals)
        if began <= before and after <= ended
    ]


def quiet() -> None:
    """Do nothing for a while: what else is to be compared with."""
    time.sleep(QUIET_SECONDS)


def findings(name: str, title: str, during: Stalls, without: Stalls, ceiling: float | None) -> list[Finding]:
    """Return how much longer a stream stood still than without, and how long a writer waited; both in milliseconds."""
    one, other = during.to_dict(), without.to_dict()
    detail = {
        "during": one,
        "without": other,
        "foreign_cores": {"during": round(during.foreign_cores, 3), "without": round(without.foreign_cores, 3)},
    }
    return [
        Finding(
            f"{name}_stall",
            f"{title}: a stream stalls longer by",
            during.longest_gap - without.longest_gap,
            "ms",
            ceiling,
            is_ceiling=True,
            columns=(
                f"{during.longest_gap:.0f} ms",
                f"{without.longest_gap:.0f} ms without",
                f"p99 {one['gap_ms']['p99']} and {other['gap_ms']['p99']} ms",
            ),
            detail=detail,
        ),
        Finding(
            f"{name}_writer_wait",
            f"{title}: a writer waits at most",
            max(during.waits),
            "ms",
            ceiling,
            is_ceiling=True,
            columns=(
                "",
                f"{max(without.waits):.0f} ms without",
                f"p99 {one['writer_wait_ms']['p99']} and {other['writer_wait_ms']['p99']} ms",
            ),
        ),
    ]


def _distribution(values: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=1000, method="inclusive")
    figures = {"p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998], "most": max(values)}
    return {"count": len(values)} | {name: round(value, 1) for name, value in figures.items()}


def _cpu_of_children() -> float:
    """Return the processor time of the processes that the bench has waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class LockProbe:
    """`lock_probe.py` as long as the context is entered; `waits` afterwards."""

    def __init__(self, database: Path) -> None:
        self.waits: list[float] = []
        self._command = [sys.executable, "-P", str(_PROBE), str(database)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        self.waits = json.loads(self._process.communicate()[0])
