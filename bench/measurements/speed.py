"""What the measurements of speed have in common: tokens a second, prefill in both clocks."""

import statistics

from bench import comparison
from bench.findings import Finding, spread
from bench.subjects import Subjects


def finding(subjects: Subjects, name: str, title: str, *, at_once: int, target: float) -> Finding:
    """Compare both sides on `at_once` prompts at a time: the figure is the median of the rounds' ratios."""
    options = subjects.options
    rounds = comparison.compare(subjects, at_once=at_once, tokens=options.tokens, rounds=options.rounds)
    ratios = [done.service_speed / done.raw_speed for done in rounds]
    service = spread([done.service_speed for done in rounds], 1)
    raw = spread([done.raw_speed for done in rounds], 1)
    same = sum(
        answer.text == text for done in rounds for answer, text in zip(done.answers, done.raw["texts"], strict=True)
    )
    return Finding(
        name,
        title,
        statistics.median(ratios),
        "",
        target,
        is_ceiling=False,
        columns=(
            f"{service['median']:.1f} tok/s",
            f"{raw['median']:.1f} tok/s",
            f"{min(ratios):.3f} to {max(ratios):.3f}",
        ),
        detail={
            "ratios": [round(ratio, 4) for ratio in ratios],
            "service_tokens_per_second": service,
            "raw_tokens_per_second": raw,
            "at_once": at_once,
            "prompt_tokens": rounds[0].answers[0].input_tokens,
            "output_tokens": rounds[0].answers[0].output_tokens,
            "events": rounds[0].answers[0].events,
            "texts_equal_to_fastest_prefill": f"{same} of {len(rounds) * at_once}",
            **comparison.summary(rounds),
        },
    )
