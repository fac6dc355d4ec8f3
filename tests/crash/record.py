"""What a long soak has seen of the service's processes and files, and when it killed whom."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment.

    Attributes:
        seconds: since the record began.
        role: what the process is to the service.
        pid: its id; kills change who has a role.
        pss: its proportional share of memory in bytes, so that those of a role add up.
        rss: its resident set in bytes.
        handles: open file descriptors.
        threads: of it.
    """

    seconds: float
    role: str
    pid: int
    pss: int
    rss: int
    handles: int
    threads: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The database and its write-ahead log at one moment, in bytes."""

    seconds: float
    database: int
    log: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Who was killed, and when."""

    seconds: float
    victim: str


@dataclass
class Record:
    """All of it, in the order of time."""

    readings: list[Reading] = field(default_factory=list)
    sizes: list[Sizes] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)

    def save(self, directory: Path) -> None:
        """Write it as CSV files, a kind of entry each, in place of what is there."""
        directory.mkdir(parents=True, exist_ok=True)
        for kind in fields(self):
            with (directory / f"{kind.name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                entries = getattr(self, kind.name)
                writer.writerow(field.name for field in fields(_KINDS[kind.name]))
                writer.writerows(map(astuple, entries))

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read what ``save`` has written."""
        return cls(**{name: list(_read(directory / f"{name}.csv", kind)) for name, kind in _KINDS.items()})


_KINDS: dict[str, Any] = {"readings": Reading, "sizes": Sizes, "kills": Kill}


def _read(path: Path, kind: Any) -> Iterator[Any]:
    types: Any = [field.type for field in fields(kind)]
    with path.open(newline="") as file:
        rows: Iterable[list[str]] = csv.reader(file)
        for row in list(rows)[1:]:
            yield kind(*(convert(value) for convert, value in zip(types, row, strict=True)))
