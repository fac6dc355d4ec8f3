"""What is counted where it happens, and the only writer of the table that keeps it.

A count is written in the transaction of what it counts: one that is rolled back has counted nothing. The sums are in
the database, so that any number of processes add to the same ones, and neither a restart nor a purge takes them back.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from django.db import connection, transaction

_ADD = (
    "INSERT INTO statistics (name, labels, value) VALUES (%s, %s, %s)"
    " ON CONFLICT (name, labels) DO UPDATE SET value = statistics.value + excluded.value"
)

_READ = "SELECT name, labels, value FROM statistics WHERE name IN (%s, %s)"

Labels = tuple[str, ...]
# By the name of a series and the values of its labels. A histogram has one series for each bucket, not cumulative,
# whose last label is the upper bound, and one of sums.
Counts = dict[tuple[str, Labels], float]


class Counter(NamedTuple):
    """A number that only grows."""

    name: str
    help: str
    labels: Labels = ()


class Histogram(NamedTuple):
    """How many values were at most as large as each of the bounds, in seconds."""

    name: str
    help: str
    bounds: tuple[float, ...]
    labels: Labels = ()

    @property
    def buckets(self) -> str:
        """The name of its buckets' series."""
        return f"{self.name}_bucket"

    @property
    def sum(self) -> str:
        """The name of its sums' series."""
        return f"{self.name}_sum"


TASKS_CREATED = Counter("lmsp_tasks_created_total", "Tasks that were accepted.", ("model", "priority"))
TASKS_FINISHED = Counter(
    "lmsp_tasks_finished_total",
    "Tasks that have finished; code is a failed one's error, or why a completed one is incomplete.",
    ("model", "status", "code"),
)
TASKS_RECOVERED = Counter(
    "lmsp_tasks_recovered_total",
    "Tasks that were changed because their worker, engine or service had ended: how found, by which policy, what then.",
    ("cause", "status", "policy", "outcome"),
)
RESUMES = Counter("lmsp_resumes_total", "Generations that went on from their snapshot.", ("exact",))
INPUT_TOKENS = Counter("lmsp_input_tokens_total", "Prompt tokens of tasks, at their first claim.", ("model",))
OUTPUT_TOKENS = Counter(
    "lmsp_output_tokens_total", "Tokens generated and committed, of runs that started anew too.", ("model",)
)
TASK_WAIT = Histogram(
    "lmsp_task_wait_seconds",
    "From a task's acceptance to its first claim.",
    (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
    ("priority",),
)
FIRST_TOKEN = Histogram(
    "lmsp_first_token_seconds",
    "From a claim to its run's first new token: loading, prefill, and a resumed run's replay.",
    (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
    ("model", "resumed"),
)
TIME_PER_OUTPUT_TOKEN = Histogram(
    "lmsp_time_per_output_token_seconds",
    "Mean time between the tokens of a run, from its first message of tokens to its last; one value for each run.",
    (0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0),
    ("model",),
)
COMMIT = Histogram(
    "lmsp_commit_seconds",
    "Transactions that append a running task's output to its log, with their waits for lock and disk.",
    (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
)
COUNTERS = (TASKS_CREATED, TASKS_FINISHED, TASKS_RECOVERED, RESUMES, INPUT_TOKENS, OUTPUT_TOKENS)
HISTOGRAMS = (TASK_WAIT, FIRST_TOKEN, TIME_PER_OUTPUT_TOKEN, COMMIT)


def speeds() -> dict[str, float]:
    """Return the tokens a second that a task of each model has seen, as the mean over its runs."""
    runs: dict[str, float] = {}
    seconds: dict[str, float] = {}
    histogram = TIME_PER_OUTPUT_TOKEN
    with connection.cursor() as cursor:
        cursor.execute(_READ, [histogram.buckets, histogram.sum])
        for name, labels, value in cursor.fetchall():
            model, *_ = json.loads(labels)
            sums = runs if name == histogram.buckets else seconds
            sums[model] = sums.get(model, 0) + value
    return {model: runs.get(model, 0) / spent for model, spent in seconds.items() if spent > 0}


def count(counts: Counts, counter: Counter, *labels: str, by: float = 1) -> None:
    """Let a counter grow."""
    key = (counter.name, labels)
    counts[key] = counts.get(key, 0) + by


def observe(counts: Counts, histogram: Histogram, value: float, *labels: str) -> None:
    """Enter a value into a histogram."""
    place = bisect_left(histogram.bounds, value)
    bound = str(histogram.bounds[place]) if place < len(histogram.bounds) else "+Inf"
    for key, by in (((histogram.buckets, (*labels, bound)), 1), ((histogram.sum, labels), value)):
        counts[key] = counts.get(key, 0) + by


def add(counts: Mapping[tuple[str, Labels], float]) -> None:
    """Write what was counted, in the transaction of what it counts."""
    assert connection.in_atomic_block, "what is counted and the count are one transaction"
    if counts:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, [(name, json.dumps(labels), by) for (name, labels), by in counts.items()])


def flush(counts: Counts) -> None:
    """Write what no other transaction has taken along, and forget it."""
    if counts:
        with transaction.atomic():
            add(counts)
        counts.clear()
