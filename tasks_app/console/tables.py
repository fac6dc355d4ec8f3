"""Tables that fit a terminal, and text that cannot command it."""

import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

_GAP = "  "
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
# Nobody looks at a pipe: its reader gets everything.
_UNLIMITED = 10_000

Paint = Callable[[str], str]


@dataclass(frozen=True)
class Column:
    """One column: what it holds, and what may be done to it where there is no room.

    Attributes:
        title: its heading.
        cells: one text for each row.
        least: how narrow it may become.
        rank: the column with the highest is the first to be left out; 0 is never left out.
        right: whether it holds figures.
        keeps_end: whether it is cut at its beginning.
        paints: how each of its cells is coloured.
    """

    title: str
    cells: Sequence[str]
    least: int = 0
    rank: int = 0
    right: bool = False
    keeps_end: bool = False
    paints: Sequence[Paint] | None = None

    @property
    def width(self) -> int:
        """How wide it would like to be."""
        return max(map(columns_of, (self.title, *self.cells)))

    def cell(self, row: int, width: int) -> str:
        """Return one cell, cut or filled to `width`."""
        text = cut(self.cells[row], width, keeps_end=self.keeps_end)
        space = " " * (width - columns_of(text))
        painted = self.paints[row](text) if self.paints else text
        return space + painted if self.right else painted + space


def lines(table: Sequence[Column], width: int, heading: Paint) -> Iterator[str]:
    """Yield heading and rows, none of them wider than `width` if that can be had."""
    shown = [column for column in table if any(column.cells)]
    widths = _fitted(shown, width)
    while widths is None:
        shown.remove(max(shown, key=lambda column: column.rank))
        widths = _fitted(shown, width)
    titles = [
        f"{column.title:>{w}}" if column.right else f"{column.title:<{w}}"
        for column, w in zip(shown, widths, strict=True)
    ]
    yield heading(_GAP.join(titles).rstrip())
    for row in range(len(shown[0].cells)):
        yield _GAP.join(column.cell(row, w) for column, w in zip(shown, widths, strict=True)).rstrip()


def _fitted(table: Sequence[Column], width: int) -> list[int] | None:
    """Return how wide each column becomes; ``None`` where one has to go first."""
    widths = [column.width for column in table]
    least = [min(w, max(column.least or w, len(column.title))) for column, w in zip(table, widths, strict=True)]
    excess = sum(widths) + len(_GAP) * (len(table) - 1) - width
    if excess > sum(widths) - sum(least) and any(column.rank for column in table):
        return None
    while excess > 0:
        index = max(range(len(table)), key=lambda n: widths[n] - least[n])
        if widths[index] == least[index]:
            break  # The terminal is narrower than what is never left out.
        # The end of an id says as much as any part of it that is longer.
        step = widths[index] - least[index] if table[index].keeps_end else 1
        widths[index] -= step
        excess -= step
    return widths


def width_of(stream: TextIO) -> int:
    """Return how many columns `stream` has: its terminal's, or what COLUMNS says; without end for a pipe."""
    if not stream.isatty() and not os.environ.get("COLUMNS"):
        return _UNLIMITED
    return shutil.get_terminal_size().columns


def uncoloured(text: str) -> str:
    """Return `text` as wide as it is shown."""
    return _COLOUR.sub("", text)


def columns_of(text: str) -> int:
    """Return how many columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def cut(text: str, width: int, *, keeps_end: bool = False) -> str:
    """Return `text` in no more than `width` columns, with a mark where something is missing."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) >= width:
        text = text[1:] if keeps_end else text[:-1]
    return f"…{text}" if keeps_end else f"{text}…"


def tame(text: str, *, lines: bool = False) -> str:
    """Return `text` without what a terminal would obey instead of showing.

    Args:
        text: from a model or a client.
        lines: whether it keeps its newlines and tabs.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else " " if c in "\n\t\r" else "\ufffd" for c in text)
