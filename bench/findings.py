"""What a measurement found, beside what it should have found."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure that counts.

    Attributes:
        name: its key in the JSON.
        title: the same for people.
        value: the figure.
        unit: what it is measured in; empty for a ratio.
        target: what it has to reach, or, with `is_ceiling`, to stay below; None where nobody has said.
        is_ceiling: whether less is better.
        columns: what stands beside it in the table, for people.
        detail: everything else, for the JSON.
    """

    name: str
    title: str
    value: float
    unit: str
    target: float | None
    is_ceiling: bool
    columns: Sequence[str] = ()
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.is_ceiling else self.value >= self.target

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON has it, the figure that counts first."""
        return {
            "value": round(self.value, 4),
            "unit": self.unit or "ratio",
            "target": self.target,
            "target_is": "ceiling" if self.is_ceiling else "floor",
            "met": self.is_met,
            **self.detail,
        }


def spread(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return the median of `values` and how far they reach."""
    return {
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "most": round(max(values), digits),
    }
