"""A log that a process of its own writes and readers follow: how late its events come, and what that costs."""

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from bench import costs, processes
from bench.costs import Cost
from bench.service import REPOSITORY, Service, ServiceError
from bench.stream_readers import Readers
from bench.subjects import Subjects

OPENING_EVENTS = 3
"""How many events the log of a writer's task has when it begins to write."""

_PROGRAM = "import django; django.setup(); from bench import stream_writer; stream_writer.main()"
# The kernel counts processor time in hundredths of a second: less than one is not none.
_TICK = 0.01


class Writer:
    """The process that writes (``stream_writer``)."""

    def __init__(self, service: Service) -> None:
        self._environment = service.environment | {"DJANGO_SETTINGS_MODULE": "lmsp_site.settings"}
        self._cpu = 0.0
        self.spent = 0.0
        """Processor time that the last writing took, in seconds."""

        self.took: list[float] = []
        """How long each of the last transactions took, in milliseconds."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            cwd=REPOSITORY,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ids = self._line()
        self.task_id: str = ids["task_id"]
        self.response_id: str = ids["response_id"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)

    def begin(self, events: int, rate: int) -> None:
        """Have it write so many events, so many a second; 0: as fast as it goes."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{events} {rate}\n")
        self._process.stdin.flush()

    def commits(self) -> dict[int, int]:
        """Wait until they are written, and return when each was committed."""
        done = self._line()
        self.spent, self._cpu = done["cpu_seconds"] - self._cpu, done["cpu_seconds"]
        self.took = done["took_ms"]
        return {int(number): moment for number, moment in done["commits"].items()}

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServiceError("the writer of events has ended")
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass(frozen=True, slots=True)
class Delivery:
    """Events that came to readers.

    Attributes:
        late: milliseconds from the commit to the reader, of each delivery, in order.
        cost: of the whole.
        foreign_cores: that neither the service, the writer nor the readers used.
    """

    late: list[float]
    cost: Cost
    foreign_cores: float

    @property
    def p50(self) -> float:
        """The median delay in milliseconds."""
        return statistics.median(self.late)

    @property
    def p99(self) -> float:
        """The delay in milliseconds that one in a hundred exceeds."""
        return self.late[len(self.late) * 99 // 100]

    @property
    def web_microseconds(self) -> float:
        """Processor time of the web server for each delivery."""
        return max(self.cost.service["web"], _TICK) / len(self.late) * 1e6


def readers(service: Service, writer: Writer, count: int, *, websocket: bool, after: int = -1) -> Readers:
    """Return so many readers of the writer's log."""
    return Readers(service.address, service.token, writer.task_id, count, websocket=websocket, after=after)


def deliver(subjects: Subjects, writer: Writer, all_readers: Readers, events: int, rate: int) -> Delivery:
    """Have so many events written, so many a second, and return how they came to readers that know all before them."""
    all_readers.arrivals.clear()
    until = min(all_readers.last.values()) + events
    writer.begin(events, rate)
    _, cost = costs.accounted(subjects, lambda: all_readers.read_until(until))
    commits = writer.commits()
    late = sorted((moment - commits[number]) / 1e6 for number, moment in all_readers.arrivals)
    return Delivery(late, cost, max(cost.foreign - writer.spent, 0.0) / cost.seconds)


def web_megabytes(service: Service) -> float:
    """Return the resident size of the web server."""
    return processes.by_role(service.processes(memory=True), "rss")["web"] / (1 << 20)
