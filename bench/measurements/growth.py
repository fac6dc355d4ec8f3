"""How the costs of the service grow with the work; `bench.plots` draws what it finds."""

import time

from bench.findings import Finding
from bench.growth import log_length, open_streams, stored_tasks
from bench.subjects import Subjects

_PARTS = (open_streams, log_length, stored_tasks)


def measure(subjects: Subjects) -> list[Finding]:
    """The exponent of each cost over the size of the work: 0 does not grow, 1 is linear."""
    subjects.stop_raw_loops()
    findings = []
    for part in _PARTS:
        began = time.monotonic()
        series, foreign = part.measure(subjects)
        seconds = time.monotonic() - began
        findings += [each.finding(seconds, foreign) for each in series]
    return findings
