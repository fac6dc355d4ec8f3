"""How much later the first token comes than the raw loop has it."""

import statistics

from bench import comparison
from bench.findings import Finding, spread
from bench.subjects import Subjects

_TOKENS = 8
_CEILING_MS = 10.0


def measure(subjects: Subjects) -> list[Finding]:
    """Milliseconds from the request to the first delta, less those of the raw loop's prefill and first choice."""
    rounds = comparison.compare(subjects, at_once=1, tokens=_TOKENS, rounds=subjects.options.samples)
    service = [done.answers[0].first_token * 1000 for done in rounds]
    raw = [done.raw["first_token"] * 1000 for done in rounds]
    later = [one - other for one, other in zip(service, raw, strict=True)]
    return [
        Finding(
            "first_token",
            "first token, later by",
            statistics.median(later),
            "ms",
            _CEILING_MS,
            is_ceiling=True,
            columns=(
                f"{statistics.median(service):.1f} ms",
                f"{statistics.median(raw):.1f} ms",
                f"{min(later):.1f} to {max(later):.1f}",
            ),
            detail={
                "later_ms": spread(later, 2),
                "service_ms": spread(service, 2),
                "raw_ms": spread(raw, 2),
                "accepted_ms": spread([done.answers[0].arrived["response.created"] * 1000 for done in rounds], 2),
                "started_ms": spread([done.answers[0].arrived["response.in_progress"] * 1000 for done in rounds], 2),
                "samples": len(rounds),
                "prompt_tokens": rounds[0].answers[0].input_tokens,
                **comparison.summary(rounds),
            },
        )
    ]
