"""How fast one run is: measured in its worker's memory, without any work for the database."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tasks_app import statistics
from tasks_app.statistics import Counts


class RunTimes:
    """The times of one run, from its claim on.

    Attributes:
        observed: what has been measured and not been written yet. Killed with -9, the worker takes it along.
    """

    def __init__(self, model: str, *, resumed: bool) -> None:
        self.observed: Counts = {}
        self._model = model
        self._resumed = "true" if resumed else "false"
        self._claimed_at = time.perf_counter()
        self._first_at: float | None = None
        self._last_at = 0.0
        self._since_first = 0

    def arrived(self, tokens: int) -> None:
        """Note that the engine has sent so many new tokens."""
        if not tokens:
            return
        self._last_at = time.perf_counter()
        if self._first_at is None:
            self._first_at = self._last_at
            waited = self._first_at - self._claimed_at
            statistics.observe(self.observed, statistics.FIRST_TOKEN, waited, self._model, self._resumed)
        else:
            self._since_first += tokens

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Measure a transaction that succeeds."""
        began = time.perf_counter()
        yield
        statistics.observe(self.observed, statistics.COMMIT, time.perf_counter() - began)

    def ended(self) -> None:
        """Note that everything has been generated; one message of tokens says nothing about the time between two."""
        if self._first_at is not None and self._since_first:
            each = (self._last_at - self._first_at) / self._since_first
            statistics.observe(self.observed, statistics.TIME_PER_OUTPUT_TOKEN, each, self._model)
