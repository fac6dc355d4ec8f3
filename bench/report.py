"""The outcome, for people and for programs."""

from collections.abc import Sequence
from typing import Any

from bench import machine
from bench.findings import Finding
from bench.growth import series
from bench.subjects import Subjects

_BUSY = 0.1
"""Cores that other processes may use before a table says that it was measured on a busy machine."""

_HEAD = ("", "measured", "target", "", "service", "raw loop", "from, to")


def table(findings: Sequence[Finding]) -> str:
    """Return the findings as lines of text, the figure that counts first."""
    rows = [_HEAD, *map(_row, findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    foreign = [max(found.detail["foreign_cores"].values()) for found in findings if "foreign_cores" in found.detail]
    if foreign and max(foreign) > _BUSY:
        lines.append(f"Other processes used up to {max(foreign):.1f} cores meanwhile: take the figures with care.")
    return "\n".join(lines)


def line(found: Finding) -> str:
    """Return one finding as a line, for whoever waits for the rest."""
    return "  ".join(filter(None, _row(found)))


def summary(subjects: Subjects, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return everything as one JSON object."""
    options = subjects.options
    return {
        "findings": {found.name: found.to_dict() for found in findings},
        "settings": {
            "model": options.model.name,
            "threads": subjects.engine["threads"],
            "max_running": options.max_running,
            "context_length": subjects.engine["context_length"],
            "tokens": options.tokens,
            "rounds": options.rounds,
            "samples": options.samples,
        },
        "machine": machine.description(),
    }


def _row(found: Finding) -> tuple[str, ...]:
    unit = f" {found.unit}" if found.unit else " of raw"
    digits = {"": 3, series.UNIT: 2}.get(found.unit, 1)
    target = "" if found.target is None else f"{'≤' if found.is_ceiling else '≥'} {found.target:g}"
    columns = (*found.columns, "", "", "")[:3]
    verdict = {True: "met", False: "missed", None: ""}[found.is_met]
    return (found.title, f"{found.value:.{digits}f}{unit}", target, verdict, *columns)
