"""Several streamed responses at once, against as many sequences batched in the raw loop."""

from bench.findings import Finding
from bench.measurements import speed
from bench.subjects import Subjects

_TARGETS = {4: 0.90, 8: 0.95}


def measure(subjects: Subjects) -> list[Finding]:
    """Tokens a second of all together, for each count that the service may run at once."""
    counts = {count: target for count, target in _TARGETS.items() if count <= subjects.options.max_running}
    return [
        found
        for count, target in counts.items()
        for found in speed.findings(subjects, f"at_once_{count}", f"{count} at once", at_once=count, target=target)
    ]
