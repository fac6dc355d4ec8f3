"""TABLE minutes: what had been counted at the beginning of each minute, and the plots that are drawn from it."""

import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tasks_app import statistics
from tasks_app.metrics import database, gauges
from tasks_app.metrics.gauges import Samples
from tasks_app.models import Minute
from tasks_app.states import Status

logger = logging.getLogger(__name__)

KEPT_MINUTES = 8 * 24 * 60
DAY_MINUTES = 24 * 60
_POINTS_OF_A_DAY = 96


class Keeper:
    """Writes one row a minute; asked every few seconds."""

    def __init__(self) -> None:
        self._noted = 0

    def tend(self) -> None:
        """Note the present minute, unless it has been.

        Raises:
            DatabaseError: it could not be written; the next call tries again.
        """
        minute = int(time.time() // 60)
        if minute == self._noted:
            return
        samples: Samples = {}
        try:
            database.read(samples, {})
        except sqlite3.Error as error:
            logger.info("minute not noted", extra={"error": str(error)})
            return
        Minute.objects.bulk_create([_row(minute, samples)], ignore_conflicts=True)
        Minute.objects.filter(minute__lt=minute - KEPT_MINUTES).delete()
        self._noted = minute


def _row(minute: int, samples: Samples) -> Minute:
    finished = samples.get(statistics.TASKS_FINISHED, {})
    failed: Counter[str] = Counter()
    for (_, status, code), count in finished.items():
        if status == Status.FAILED:
            failed[code] += int(count)
    tasks = samples.get(gauges.TASKS, {})
    return Minute(
        minute=minute,
        output_tokens=sum(samples.get(statistics.OUTPUT_TOKENS, {}).values()),
        finished=sum(finished.values()),
        failed=dict(failed),
        waiting=int(tasks.get((Status.QUEUED.value,), 0)),
        running=int(tasks.get((Status.RUNNING.value,), 0)),
    )


def plots() -> dict[str, Any]:
    """Return the last hour by minutes and the last day by quarters of an hour; see ``_series``."""
    now = int(time.time() // 60)
    rows = list(Minute.objects.filter(minute__gte=now - DAY_MINUTES - 1).order_by("minute"))
    hour = [row for row in rows if row.minute >= now - 61]
    return {
        "hour": _series(hour),
        "day": _series(_thinned(rows, DAY_MINUTES // _POINTS_OF_A_DAY)),
        "failures": _failures(rows),
    }


def _series(rows: Sequence[Minute]) -> dict[str, list[float]]:
    """Return the ends of the spans between rows in Unix seconds, and what happened in each."""
    series: dict[str, list[float]] = {"at": [], "tokens_per_second": [], "tasks_per_minute": [], "waiting": []}
    for before, row in pairwise(rows):
        minutes = row.minute - before.minute
        series["at"].append(row.minute * 60)
        # A database that was put back counts from where it was.
        series["tokens_per_second"].append(round(max(0.0, row.output_tokens - before.output_tokens) / minutes / 60, 2))
        series["tasks_per_minute"].append(round(max(0.0, row.finished - before.finished) / minutes, 2))
        series["waiting"].append(row.waiting)
    return series


def _thinned(rows: Sequence[Minute], minutes: int) -> list[Minute]:
    """Return the first row of each span of so many minutes, and the last of all."""
    chosen = {row.minute // minutes: row for row in reversed(rows)}
    kept = [chosen[span] for span in sorted(chosen)]
    return kept if not rows or kept[-1] is rows[-1] else [*kept, rows[-1]]


def _failures(rows: Sequence[Minute]) -> dict[str, int]:
    """Return how many tasks have failed in the time of `rows`, by code, the most frequent first."""
    if not rows:
        return {}
    found = Counter(rows[-1].failed)
    found.subtract(rows[0].failed)
    return {code: int(count) for code, count in found.most_common() if count > 0}
