"""One cost over the size of the work, and the power of the size with which it grows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.findings import Finding

FLAT = 0.2
"""The most that the cost of one thing may grow among many: a factor of four over three powers of ten."""

LINEAR = 1.1
"""The most that the cost of all of them may grow; a tenth for what a measurement of a few points cannot tell."""

UNIT = "exponent"
"""The unit of the figure that counts."""


@dataclass(frozen=True, slots=True)
class Series:
    """A cost at each size of the work.

    Attributes:
        name: its key in the JSON, after ``growth_``.
        title: what costs, for people.
        over: what the size is, for people: ``tasks stored``.
        unit: of the cost.
        points: sizes, growing, each with its cost; both above zero.
        ceiling: the exponent that it must not exceed; None where nobody has said.
    """

    name: str
    title: str
    over: str
    unit: str
    points: Sequence[tuple[int, float]]
    ceiling: float | None

    def finding(self, seconds: float, foreign_cores: float) -> Finding:
        """Return the exponent, with all points.

        Args:
            seconds: what it took to measure everything over this size.
            foreign_cores: that other processes used at most while it was measured.
        """
        (least, first), (most, last) = self.points[0], self.points[-1]
        return Finding(
            f"growth_{self.name}",
            f"{self.title}, over {self.over}",
            exponent(self.points),
            UNIT,
            self.ceiling,
            is_ceiling=True,
            columns=(f"{last:.3g} {self.unit} at {most:,}", "", f"{first:.3g} {self.unit} at {least:,}"),
            detail={
                "growth": {
                    "title": self.title,
                    "over": self.over,
                    "unit": self.unit,
                    "points": [[size, float(f"{cost:.4g}")] for size, cost in self.points],
                },
                "seconds_of_part": round(seconds, 1),
                "foreign_cores": {"service": round(foreign_cores, 3)},
            },
        )


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the power of the size with which a cost grows: 0 not at all, 1 linearly; fitted to the logarithms.

    Args:
        points: sizes and costs, two different sizes at least, all above zero.

    Raises:
        ValueError: there are too few, or one is not above zero.
    """
    if len({size for size, _ in points}) < 2 or min(min(point) for point in points) <= 0:
        raise ValueError(f"costs above zero at two sizes or more are needed, and not {list(points)}")
    xs, ys = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)
