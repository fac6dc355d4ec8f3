"""How late events come to those who follow a log, how long a replay takes, and what idle streams cost."""

import time
from contextlib import ExitStack
from pathlib import Path

from bench import costs, followed
from bench.findings import Finding
from bench.followed import OPENING_EVENTS, Writer
from bench.subjects import Subjects

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


def _latency(
    subjects: Subjects, transport: str, *, readers: int, rate: int, websocket: bool, targets: bool
) -> list[Finding]:
    service = subjects.service
    with Writer(service) as writer, followed.readers(service, writer, readers, websocket=websocket) as all_readers:
        all_readers.read_until(OPENING_EVENTS - 1)
        came = followed.deliver(subjects, writer, all_readers, rate * _SECONDS, rate)
    detail = {
        "readers": readers,
        "events_per_second": rate,
        "deliveries": len(came.late),
        "most_ms": round(came.late[-1], 2),
        "web_microseconds_per_delivery": round(came.web_microseconds, 1),
        "client_cores": round(came.cost.client / came.cost.seconds, 3),
        "foreign_cores": {"service": round(came.foreign_cores, 3)},
    }
    return [
        Finding(
            f"event_{percentile}_{transport}_{readers}_readers",
            f"commit to client, {rate} events/s, {readers} readers, {transport}, {percentile}",
            value,
            "ms",
            ceiling if targets else None,
            is_ceiling=True,
            columns=(f"web {came.web_microseconds:.0f} µs each", "", f"up to {came.late[-1]:.1f} ms"),
            detail=detail,
        )
        for percentile, value, ceiling in (("p50", came.p50, _P50_CEILING_MS), ("p99", came.p99, _P99_CEILING_MS))
    ]


def _replay(subjects: Subjects, transport: str, *, websocket: bool) -> Finding:
    service = subjects.service
    with Writer(service) as writer:
        writer.begin(_REPLAYED, 0)
        writer.commits()
        before = followed.web_megabytes(service)
        with followed.readers(service, writer, 1, websocket=websocket) as reader:
            _, cost = costs.accounted(subjects, lambda: reader.read_until(OPENING_EVENTS - 1 + _REPLAYED))
        grown = followed.web_megabytes(service) - before
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
    service = subjects.service
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(service))
        before = followed.web_megabytes(service)
        readers = stack.enter_context(followed.readers(service, writer, _IDLE, websocket=websocket))
        readers.read_until(OPENING_EVENTS - 1)
        kilobytes = (followed.web_megabytes(service) - before) * 1024 / _IDLE
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
