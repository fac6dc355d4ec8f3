"""What the measurements of speed have in common: tokens a second, prefill in both clocks."""

import statistics
from collections.abc import Sequence
from typing import Any

from bench import comparison
from bench.comparison import Round
from bench.findings import Finding, spread
from bench.subjects import Subjects
from models_app.engines.cores import usable_cores


def findings(subjects: Subjects, name: str, title: str, *, at_once: int, target: float) -> list[Finding]:
    """Compare both sides on `at_once` prompts at a time.

    The target is for the raw loop with as many threads as the engine has chosen. Where that leaves cores to the rest of
    the service, a second figure says what the same machine does if the raw loop takes them all.
    """
    options = subjects.options
    rounds = comparison.compare(subjects, at_once=at_once, tokens=options.tokens, rounds=options.rounds)
    service = [done.service_speed for done in rounds]
    found = [_finding(name, title, target, service, [done.raw_speed for done in rounds], _detail(rounds))]
    on_all_cores = [done.all_cores_speed for done in rounds if done.all_cores_speed is not None]
    if on_all_cores:
        title = f"{title}, raw on {usable_cores()} threads"
        found.append(_finding(f"{name}_all_cores", title, None, service, on_all_cores, {}))
    return found


def _finding(
    name: str, title: str, target: float | None, service: Sequence[float], raw: Sequence[float], detail: dict[str, Any]
) -> Finding:
    """Make a finding of the speeds of each round: the figure is the median of the rounds' ratios."""
    ratios = [one / other for one, other in zip(service, raw, strict=True)]
    return Finding(
        name,
        title,
        statistics.median(ratios),
        "",
        target,
        is_ceiling=False,
        columns=(
            f"{statistics.median(service):.1f} tok/s",
            f"{statistics.median(raw):.1f} tok/s",
            f"{min(ratios):.3f} to {max(ratios):.3f}",
        ),
        detail={
            "ratios": [round(ratio, 4) for ratio in ratios],
            "service_tokens_per_second": spread(service, 1),
            "raw_tokens_per_second": spread(raw, 1),
            **detail,
        },
    )


def _detail(rounds: Sequence[Round]) -> dict[str, Any]:
    pairs = [pair for done in rounds for pair in zip(done.answers, done.raw["texts"], strict=True)]
    first = rounds[0].answers[0]
    return {
        "prompt_tokens": first.input_tokens,
        "output_tokens": first.output_tokens,
        "events": first.events,
        "texts_equal_to_fastest_prefill": f"{sum(answer.text == text for answer, text in pairs)} of {len(pairs)}",
        **comparison.summary(rounds),
    }
