"""Several streamed responses at once, against as many sequences batched in the raw loop."""

from bench.findings import Finding
from bench.measurements import speed
from bench.subjects import Subjects

_COUNTS = (4, 8)
_TARGET = 0.90


def measure(subjects: Subjects) -> list[Finding]:
    """Tokens a second of all together, for each count that the service may run at once."""
    counts = [count for count in _COUNTS if count <= subjects.options.max_running]
    return [
        found
        for count in counts
        for found in speed.findings(subjects, f"at_once_{count}", f"{count} at once", at_once=count, target=_TARGET)
    ]
