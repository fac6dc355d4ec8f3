"""How many threads compute, found out by computing with them.

With one thread for each core a decode is fastest on a machine that does nothing else, and slowest on one that does: it
waits for its slowest thread hundreds of times a token. Which of both holds changes from minute to minute, so now and
then a few computations are done with another number, and the faster number is kept.
"""

import math
import time
from collections.abc import Callable, Sequence

from models_app.engines.cores import default_threads, usable_cores

_TRIAL = 8
"""Computations with each of both numbers in a trial: at 100 tokens a second the service commits three times in it."""

_GAIN = 0.03
"""By how much another number must be faster to be taken."""

_PAUSE = 20
"""Times a trial's length that pass until the next one, at least: so much slower at worst is what trials cost."""

_LONGEST_PAUSE = 60.0

_SAME_BITS = 256
"""Cached tokens up to which the number of threads does not decide the bits of a decode of one row.

Beyond them llama.cpp splits a single row's attention among its threads. Decodes of more rows, and prefills, it never
splits so.
"""


class ThreadChoice:
    """The number of threads for computations of one kind.

    `begin` is called before each computation and `end` after it. A trial compares computations of equally many rows;
    where their count changes, it begins again.

    Args:
        candidates: numbers of threads, ascending; with a single one there is no choice.
        first: which of them to begin with.
        clock: seconds.
    """

    def __init__(self, candidates: Sequence[int], first: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._candidates = candidates
        self._current = candidates.index(first)
        self._clock = clock
        self._upwards = False
        self._rows = 0
        self._known: list[float] = []
        self._tried: list[float] = []
        self._spent = 0.0
        self._trying: int | None = None
        self._next_trial = 0.0
        self._pause = 0.0
        self._began = 0.0

    @property
    def threads(self) -> int:
        """The number that has proved fastest so far."""
        return self._candidates[self._current]

    def begin(self, rows: int) -> int:
        """Return the number of threads for the computation that begins now."""
        if len(self._candidates) == 1:
            return self.threads
        if rows != self._rows:
            self._rows = rows
            self._forget()
        self._began = self._clock()
        if self._trying is None and self._began >= self._next_trial and len(self._known) > _TRIAL:
            self._trying = self._neighbour()
        return self.threads if self._trying is None else self._candidates[self._trying]

    def end(self, units: int = 1) -> None:
        """Take note of how long the computation took that `begin` was called for, each of its units of work."""
        if len(self._candidates) == 1:
            return
        now = self._clock()
        took = now - self._began
        if self._trying is None:
            self._known = [*self._known[-_TRIAL:], took / units]
            return
        self._spent += took
        self._tried.append(took / units)
        if len(self._tried) > _TRIAL:
            self._decide(self._trying, now)

    def _neighbour(self) -> int:
        """The next greater number and the next smaller one by turns, as far as there are any."""
        self._upwards = not self._upwards
        if self._current == 0:
            self._upwards = True
        elif self._current == len(self._candidates) - 1:
            self._upwards = False
        return self._current + (1 if self._upwards else -1)

    def _decide(self, trying: int, now: float) -> None:
        # The first one with another number of threads wakes or ends some of them.
        known, tried = math.fsum(self._known[1:]), math.fsum(self._tried[1:])
        if tried < known * (1 - _GAIN):
            self._current = trying
            self._pause = _PAUSE * self._spent
        else:
            self._pause = min(max(2 * self._pause, _PAUSE * self._spent), _LONGEST_PAUSE)
        self._next_trial = now + self._pause
        self._forget()

    def _forget(self) -> None:
        self._trying = None
        self._known, self._tried = [], []
        self._spent = 0.0


class Threads:
    """The numbers of threads for everything that a context computes.

    Args:
        wanted: what the operator has set; 0 leaves the choice to measuring.

    Attributes:
        settled: where the number decides the bits: it is part of the fingerprint, and stays.
    """

    def __init__(self, wanted: int) -> None:
        self.settled = wanted or default_threads()
        tried = [wanted] if wanted else candidates(usable_cores())
        self._settled = ThreadChoice([self.settled], self.settled)
        self._prefill, self._one_row, self._rows = (ThreadChoice(tried, self.settled) for _ in range(3))

    def of_prefill(self) -> ThreadChoice:
        """The choice for the chunks of prompts."""
        return self._prefill

    def of_decode(self, rows: int, cached: int) -> ThreadChoice:
        """The choice for a decode of so many rows, where the first one's sequence has `cached` tokens before it."""
        if rows > 1:
            return self._rows
        return self._one_row if cached < _SAME_BITS else self._settled

    def info(self) -> dict[str, int]:
        """What has been chosen, for people."""
        return {
            "settled": self.settled,
            "prefill": self._prefill.threads,
            "one_row": self._one_row.threads,
            "more_rows": self._rows.threads,
        }


def candidates(cores: int) -> list[int]:
    """Return the numbers of threads that are worth a try on so many cores: all, all but one, and quarters."""
    return sorted({max(1, count) for count in (cores, cores - 1, 3 * cores // 4, cores // 2, cores // 4)})
