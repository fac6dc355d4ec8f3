"""How late events come to those who follow a log, how long a replay takes, and what idle streams cost."""

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import costs
from bench.findings import Finding
from bench.service import REPOSITORY, ServiceError
from bench.stream_readers import Readers
from bench.subjects import Subjects

_PROGRAM = "import django; django.setup(); from bench import stream_writer; stream_writer.main()"
_SECONDS = 5
_REPLAYED = 100_000
_IDLE = 1_000
_P50_CEILING_MS, _P99_CEILING_MS = 3.0, 10.0
_TRANSPORTS = {"sse": False, "websocket": True}


def measure(subjects: Subjects) -> list[Finding]:
    """Milliseconds from commit to client, seconds of a replay, kilobytes of a stream."""
    subjects.stop_raw_loops()
    # First, while no other stream has left memory behind that these would use.
    findings = [_idle(subjects, name, websocket=websocket) for name, websocket in _TRANSPORTS.items()]
    for name, websocket in _TRANSPORTS.items():
        findings += _latency(subjects, name, readers=50, rate=200, websocket=websocket, targets=True)
    findings += _latency(subjects, "sse", readers=500, rate=20, websocket=False, targets=False)
    return findings + [_replay(subjects, name, websocket=websocket) for name, websocket in _TRANSPORTS.items()]


class _Writer:
    """The process that writes."""

    def __init__(self, subjects: Subjects) -> None:
        self._environment = subjects.service.environment | {"DJANGO_SETTINGS_MODULE": "lmsp_site.settings"}
        self.cpu = 0.0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            cwd=REPOSITORY,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.task_id: str = self._line()["task_id"]
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
        self.cpu, before = done["cpu_seconds"], self.cpu
        self.spent = self.cpu - before
        return {int(number): moment for number, moment in done["commits"].items()}

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServiceError("the writer of events has ended")
        found: dict[str, Any] = json.loads(line)
        return found


def _readers(subjects: Subjects, writer: _Writer, count: int, *, websocket: bool, after: int = -1) -> Readers:
    service = subjects.service
    return Readers(service.address, service.token, writer.task_id, count, websocket=websocket, after=after)


def _latency(
    subjects: Subjects, transport: str, *, readers: int, rate: int, websocket: bool, targets: bool
) -> list[Finding]:
    events = rate * _SECONDS
    with _Writer(subjects) as writer, _readers(subjects, writer, readers, websocket=websocket) as all_readers:
        all_readers.read_until(2)
        all_readers.arrivals.clear()
        writer.begin(events, rate)
        _, cost = costs.accounted(subjects, lambda: all_readers.read_until(2 + events))
        commits = writer.commits()
    late = sorted((moment - commits[number]) / 1e6 for number, moment in all_readers.arrivals)
    p50, p99 = statistics.median(late), late[len(late) * 99 // 100]
    web = cost.service.get("web", 0.0)
    detail = {
        "readers": readers,
        "events_per_second": rate,
        "deliveries": len(late),
        "most_ms": round(late[-1], 2),
        "web_microseconds_per_delivery": round(web / len(late) * 1e6, 1),
        "client_cores": round(cost.client / cost.seconds, 3),
        "foreign_cores": {"service": round(max(cost.foreign - writer.spent, 0.0) / cost.seconds, 3)},
    }
    return [
        Finding(
            f"event_{percentile}_{transport}_{readers}_readers",
            f"commit to client, {rate} events/s, {readers} readers, {transport}, {percentile}",
            value,
            "ms",
            ceiling if targets else None,
            is_ceiling=True,
            columns=(f"web {web / len(late) * 1e6:.0f} µs each", "", f"up to {late[-1]:.1f} ms"),
            detail=detail,
        )
        for percentile, value, ceiling in (("p50", p50, _P50_CEILING_MS), ("p99", p99, _P99_CEILING_MS))
    ]


def _replay(subjects: Subjects, transport: str, *, websocket: bool) -> Finding:
    with _Writer(subjects) as writer:
        writer.begin(_REPLAYED, 0)
        writer.commits()
        before = _web_megabytes(subjects)
        with _readers(subjects, writer, 1, websocket=websocket) as reader:
            _, cost = costs.accounted(subjects, lambda: reader.read_until(2 + _REPLAYED))
        grown = _web_megabytes(subjects) - before
    return Finding(
        f"replay_{transport}",
        f"replay of {_REPLAYED:,} events, {transport}",
        cost.seconds,
        "s",
        None,
        is_ceiling=True,
        columns=(f"web {cost.service['web']:.1f} s of CPU", "", f"web grew by {grown:.1f} MB"),
        detail={
            "web_cpu_seconds": round(cost.service["web"], 2),
            "web_grew_by_mb": round(grown, 1),
            "foreign_cores": {"service": round(cost.foreign / cost.seconds, 3)},
        },
    )


def _idle(subjects: Subjects, transport: str, *, websocket: bool) -> Finding:
    with ExitStack() as stack:
        writer = stack.enter_context(_Writer(subjects))
        before = _web_megabytes(subjects)
        readers = stack.enter_context(_readers(subjects, writer, _IDLE, websocket=websocket))
        readers.read_until(2)
        kilobytes = (_web_megabytes(subjects) - before) * 1024 / _IDLE
        _, cost = costs.accounted(subjects, lambda: time.sleep(_SECONDS))
        threads, files = _web_count(subjects, "task"), _web_count(subjects, "fd")
    web = cost.service.get("web", 0.0) / cost.seconds
    return Finding(
        f"idle_stream_{transport}",
        f"one of {_IDLE:,} idle streams, {transport}",
        kilobytes,
        "kB",
        None,
        is_ceiling=True,
        columns=(f"web {web:.3f} cores", "", f"{threads} threads, {files} files"),
        detail={"streams": _IDLE, "web_cores": round(web, 3), "threads": threads, "files": files},
    )


def _web_count(subjects: Subjects, of: str) -> int:
    pids = [one.pid for one in subjects.service.processes() if one.role == "web"]
    return sum(len(list(Path(f"/proc/{pid}/{of}").iterdir())) for pid in pids)


def _web_megabytes(subjects: Subjects) -> float:
    return sum(one.rss for one in subjects.service.processes(memory=True) if one.role == "web") / (1 << 20)
