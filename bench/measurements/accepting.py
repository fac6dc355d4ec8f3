"""How many tasks a second are accepted, beside the least that Django REST framework could do for each."""

import statistics
from typing import Any

from bench import bare, posting
from bench.findings import Finding, spread
from bench.service import MODEL, in_django
from bench.subjects import Subjects

_CONNECTIONS = 8
_SECONDS = 3.0
_FLOOR = 1.5
_BODY: dict[str, Any] = {"input": "Tell me a story of a lighthouse.", "max_output_tokens": 64, "temperature": 0.7}


def measure(subjects: Subjects) -> list[Finding]:
    """Tasks a second by the bare server's, in turns. The workers stand still: what is measured is the door."""
    subjects.stop_raw_loops()
    service = subjects.service
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    with bare.BareServer() as server:

        def accept() -> None:
            with service.workers_stopped():
                ours.append(_posted(service.address, "/v1/tasks", service.token))
                in_django(service.data_dir, "left_over", "cancel_queued()")

        def insert() -> None:
            theirs.append(_posted(server.address, bare.PATH, server.token))

        for each in range(subjects.options.rounds):
            for turn in (accept, insert) if each % 2 else (insert, accept):
                turn()
    ratios = [len(one) / len(other) for one, other in zip(ours, theirs, strict=True)]
    rates = [[len(one) / _SECONDS for one in side] for side in (ours, theirs)]
    return [
        Finding(
            "accepting",
            f"tasks accepted, {_CONNECTIONS} connections",
            statistics.median(ratios),
            "",
            _FLOOR,
            is_ceiling=False,
            columns=(
                f"{statistics.median(rates[0]):.0f} a second",
                f"{statistics.median(rates[1]):.0f} a second (two rows by DRF)",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            ),
            detail={
                "ratios": spread(ratios, 3),
                "service_per_second": spread(rates[0], 1),
                "bare_per_second": spread(rates[1], 1),
                "service_ms": spread([1000 * took for one in ours for took in one], 2),
                "bare_ms": spread([1000 * took for one in theirs for took in one], 2),
            },
        )
    ]


def _posted(address: tuple[str, int], path: str, token: str) -> list[float]:
    return posting.posted(address, path, token, {"model": MODEL, **_BODY}, connections=_CONNECTIONS, seconds=_SECONDS)
