"""One streamed response, against one sequence of the raw loop."""

from bench.findings import Finding
from bench.measurements import speed
from bench.subjects import Subjects


def measure(subjects: Subjects) -> list[Finding]:
    """Tokens a second, from sending the request to the terminal event."""
    return speed.findings(subjects, "one_stream", "one stream", at_once=1, target=0.97)
