"""What the database tells, at one moment: the sums that were written, and the unfinished tasks.

Nothing here looks at finished tasks, of which there may be millions: every query walks along an index of what is
unfinished, and is broken off when its time is up.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from django.conf import settings

from tasks_app import statistics
from tasks_app.metrics import gauges
from tasks_app.metrics.gauges import Metric, Samples
from tasks_app.models import Priority
from tasks_app.states import UNFINISHED, Status

_LOCK_PATIENCE_SECONDS = 0.25
_LONGEST_SECONDS = 0.75
_STEPS_BETWEEN_LOOKS = 10_000

STATISTICS = "SELECT name, labels, value FROM statistics"
# Of several with the same file, which one engine serves, the first that was registered: its series goes on.
MODELS = (
    "SELECT CASE WHEN max_context_length > 0 THEN digest || ':' || max_context_length ELSE digest END, id"
    " FROM models ORDER BY created_at DESC"
)
WAITING = "SELECT priority, count(*) FROM tasks WHERE status = 'queued' AND finished_at IS NULL GROUP BY priority"
OLDEST = (
    "SELECT created_at FROM tasks WHERE status = 'queued' AND finished_at IS NULL AND priority = ? ORDER BY id LIMIT 1"
)
HELD = (
    "SELECT status, model, count(*), count(owner), sum(output_tokens) FROM tasks"
    " WHERE status IN ('loading', 'running', 'cancelling') AND finished_at IS NULL GROUP BY status, model"
)


def read(samples: Samples, models: dict[str, str]) -> None:
    """Add what the database tells to `samples`, and the ids of models to `models`, by the key of their engines.

    Raises:
        sqlite3.Error: it cannot be read, or not in time; what was found out before is there.
    """
    with _snapshot() as connection:
        models.update(connection.execute(MODELS))
        _read_statistics(connection, samples)
        # Without what the unfinished tasks have generated it would jump back.
        counted = samples.pop(statistics.OUTPUT_TOKENS, {})
        _read_queue(connection, samples)
        _read_held(connection, samples, counted)
        samples[statistics.OUTPUT_TOKENS] = counted


@contextmanager
def _snapshot() -> Iterator[sqlite3.Connection]:
    """Open the database as it is at this moment, for reading, which keeps no writer waiting."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    address = f"{settings.LMSP.database.as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, _LOCK_PATIENCE_SECONDS, uri=True, isolation_level=None)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
        connection.execute("BEGIN")
        yield connection


def _read_statistics(connection: sqlite3.Connection, samples: Samples) -> None:
    series: dict[str, Metric] = {counter.name: counter for counter in statistics.COUNTERS}
    for histogram in statistics.HISTOGRAMS:
        series |= {histogram.buckets: histogram, histogram.sum: histogram}
    # What has not happened yet is 0, where it is known beforehand: rates begin with the first time then.
    for exact in ("true", "false"):
        samples.setdefault(statistics.RESUMES, {})[exact,] = 0
    for priority in Priority:
        samples.setdefault(statistics.TASK_WAIT, {})[statistics.TASK_WAIT.sum, priority.name.lower()] = 0
    samples[statistics.COMMIT] = {(statistics.COMMIT.sum,): 0}
    for name, labels, value in connection.execute(STATISTICS):
        # None for one that an earlier or later version counts.
        if metric := series.get(name):
            values = tuple(json.loads(labels))
            key = (name, *values) if isinstance(metric, statistics.Histogram) else values
            samples.setdefault(metric, {})[key] = value


def _read_queue(connection: sqlite3.Connection, samples: Samples) -> None:
    waiting = dict(connection.execute(WAITING))
    now = datetime.now(UTC)
    lengths, waits = samples.setdefault(gauges.QUEUE_TASKS, {}), samples.setdefault(gauges.QUEUE_OLDEST_WAIT, {})
    for priority in Priority:
        name = priority.name.lower()
        # Ids sort by age.
        row = connection.execute(OLDEST, (priority.value,)).fetchone()
        since = datetime.fromisoformat(f"{row[0]}+00:00") if row else now
        lengths[name,] = waiting.get(priority.value, 0)
        waits[name,] = max(0.0, (now - since).total_seconds())
    samples[gauges.TASKS] = {(Status.QUEUED.value,): sum(waiting.values())}


def _read_held(connection: sqlite3.Connection, samples: Samples, output_tokens: dict[tuple[str, ...], float]) -> None:
    """Look at the tasks that somebody holds or held; add what they have generated to `output_tokens`."""
    tasks = samples[gauges.TASKS]
    tasks |= {(status.value,): 0 for status in sorted(UNFINISHED - {Status.QUEUED})}
    busy = running_busy = 0
    for status, model, count, owned, tokens in connection.execute(HELD):
        tasks[status,] += count
        busy += owned
        running_busy += owned if status == Status.RUNNING else 0
        output_tokens[model,] = output_tokens.get((model,), 0) + tokens
    samples[gauges.WORKERS_BUSY] = {(): busy}
    samples[gauges.TASKS_AWAITING_RESUME] = {(): tasks[Status.RUNNING.value,] - running_busy}
