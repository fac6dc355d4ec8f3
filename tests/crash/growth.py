"""Whether a record is flat: the median of the second quarter of a time against that of its last quarter.

The first quarter is left out, in which caches fill. Memory and files are compared over the whole run, by role; memory,
handles and threads of each process that lived long over its own life, which no kill can hide.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tests.crash.record import Reading, Record

_SHARE = 0.10
_BYTES = 5_000_000
_COUNT = 3
_MEGABYTE = 1_000_000

Points = Sequence[tuple[float, float]]
"""Seconds and values, in the order of time."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How something went in a time.

    Attributes:
        subject: whose it is.
        quantity: ``memory`` and ``size`` in bytes, ``handles`` and ``threads`` as counts.
        before: the median of the second quarter.
        after: the median of the last.
    """

    subject: str
    quantity: str
    before: float
    after: float

    @property
    def is_flat(self) -> bool:
        """Whether it stayed within what is allowed: 10 % and 5 MB, or 3 more."""
        if self.quantity in ("memory", "size"):
            return self.after <= self.before * (1 + _SHARE) + _BYTES
        return self.after <= self.before + _COUNT

    def __str__(self) -> str:
        return f"{self.subject}, {self.quantity}: {self._told(self.before)} and then {self._told(self.after)}"

    def _told(self, value: float) -> str:
        return f"{value / _MEGABYTE:.1f} MB" if self.quantity in ("memory", "size") else f"{value:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        named = {"subject": self.subject, "quantity": self.quantity}
        return named | {"second_quarter": self.before, "last_quarter": self.after, "flat": self.is_flat}


def of_run(record: Record) -> Iterator[Growth]:
    """Compare the memory of all processes, that of each role, and the sizes of the files over the whole run."""
    yield from _compared("all", "memory", _by_moment(record.readings, "pss"))
    for role in sorted({reading.role for reading in record.readings}):
        yield from _compared(role, "memory", summed(record, role, "pss"))
    yield from _compared("database", "size", [(size.seconds, size.database) for size in record.sizes])
    yield from _compared("write-ahead log", "size", [(size.seconds, size.log) for size in record.sizes])


def of_lives(record: Record, least: float) -> Iterator[Growth]:
    """Compare what each process had in its life, of all that lived for `least` seconds."""
    lives: defaultdict[tuple[str, int], list[Reading]] = defaultdict(list)
    for reading in record.readings:
        lives[reading.role, reading.pid].append(reading)
    for (role, pid), life in sorted(lives.items()):
        lived = life[-1].seconds - life[0].seconds
        if lived >= least:
            subject = f"{role} {pid}, {lived / 60:.1f} min"
            yield from _compared(subject, "memory", [(reading.seconds, reading.pss) for reading in life])
            yield from _compared(subject, "handles", [(reading.seconds, reading.handles) for reading in life])
            yield from _compared(subject, "threads", [(reading.seconds, reading.threads) for reading in life])


def summed(record: Record, role: str, quantity: str) -> Points:
    """Return what all processes of a role have together, at each moment at which there is one."""
    return _by_moment([reading for reading in record.readings if reading.role == role], quantity)


def _by_moment(readings: Sequence[Reading], quantity: str) -> Points:
    return [
        (seconds, sum(getattr(reading, quantity) for reading in together))
        for seconds, together in groupby(readings, key=lambda reading: reading.seconds)
    ]


def _compared(subject: str, quantity: str, points: Points) -> Iterator[Growth]:
    """Yield how it went, unless a quarter is empty."""
    if not points:
        return
    first, last = points[0][0], points[-1][0]
    quarters: defaultdict[int, list[float]] = defaultdict(list)
    for seconds, value in points:
        # The very last point is of the last quarter.
        quarters[min(int(4 * (seconds - first) / ((last - first) or 1)), 3)].append(value)
    if quarters[1] and quarters[3]:
        yield Growth(subject, quantity, statistics.median(quarters[1]), statistics.median(quarters[3]))
