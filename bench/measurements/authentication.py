"""What the check of a credential costs: token, scope, rate, and the note of the last use."""

import statistics

from bench.findings import Finding, spread
from bench.service import in_django
from bench.subjects import Subjects

_CALLS = 1000


def measure(subjects: Subjects) -> list[Finding]:
    """The processor time of a GET by that of the same GET for everybody, in turns; Daphne's own is in neither."""
    subjects.stop_raw_loops()
    service = subjects.service
    rounds = subjects.options.rounds
    found = in_django(service.data_dir, "checking", f"measure({service.token!r}, {rounds}, {_CALLS})")
    checked, unchecked = found["checked"], found["unchecked"]
    ratios = [one / other for one, other in zip(checked, unchecked, strict=True)]
    checks = [one - other for one, other in zip(checked, unchecked, strict=True)]
    return [
        Finding(
            "authentication",
            "a GET whose credential is checked",
            statistics.median(ratios),
            "",
            None,
            is_ceiling=True,
            columns=(
                f"{statistics.median(checked):.0f} µs of processor time",
                f"{statistics.median(unchecked):.0f} µs (the same, unchecked)",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            ),
            detail={
                "ratios": spread(ratios, 3),
                "checked_us": spread(checked, 1),
                "unchecked_us": spread(unchecked, 1),
                "check_us": spread(checks, 1),
            },
        )
    ]
