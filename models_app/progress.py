"""How far a command is, on a terminal."""

import sys
import time

from models_app.digests import OnBytes, ignore

_WIDTH = 30
_DRAW_SECONDS = 0.1
_MB = 1e6


class Bar:
    """A line on standard error that shows how many bytes of how many are done; none where that is no terminal."""

    def __init__(self, label: str, *, shown: bool) -> None:
        self._label = label
        self._shown = shown and sys.stderr.isatty()
        self._total = self._done = 0
        self._began = self._drawn = 0.0

    def start(self, total: int, done: int = 0) -> OnBytes:
        """Begin, and return what is to be told of each piece."""
        if not self._shown:
            return ignore
        self._total, self._done, self._began = total, done, time.monotonic()
        self._draw()
        return self._add

    def end(self) -> None:
        """Leave the line as it is, and go on below it."""
        if self._shown and self._began:
            self._draw()
            sys.stderr.write("\n")
            self._began = 0.0

    def _add(self, count: int) -> None:
        self._done += count
        if time.monotonic() - self._drawn > _DRAW_SECONDS:
            self._draw()

    def _draw(self) -> None:
        self._drawn = now = time.monotonic()
        part = min(self._done / self._total, 1.0) if self._total else 1.0
        filled = "#" * int(part * _WIDTH)
        speed = self._done / (now - self._began) / _MB if now > self._began else 0.0
        sys.stderr.write(
            f"\r{self._label} [{filled:<{_WIDTH}}] {part:4.0%} {self._done / _MB:.0f} of {self._total / _MB:.0f} MB, "
            f"{speed:.0f} MB/s "
        )
        sys.stderr.flush()
