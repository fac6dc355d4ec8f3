"""What a streamed response takes in the database, and what is written to the disk for it."""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing

from bench import costs, table_sizes
from bench.client import Answer
from bench.findings import Finding
from bench.subjects import Subjects

_RESPONSES = 8
_SETTLED_SECONDS = 1.0
_THOUSAND = 1_000
# What a row says, without what SQLite adds to it. A row of a delta is there while the response streams; those of other
# events come before the first and, most of their bytes, with the last.
_EVENTS = """
    SELECT iif(type LIKE '%.delta', 'deltas', 'other events'), count(*), sum(length(CAST(data AS BLOB)))
    FROM task_events WHERE task_id IN ({}) GROUP BY 1
"""
_JOURNAL = "SELECT 'journal', count(*), sum(length(tokens)) FROM task_journal WHERE snapshot_id IN ({})"


def measure(subjects: Subjects) -> list[Finding]:
    """Kilobytes for 1,000 tokens of responses that are streamed one after the other, once they have finished."""
    service = subjects.service
    before, written = table_sizes.read(service.database), subjects.service.processes()

    def stream() -> list[Answer]:
        return [service.respond(subjects.prompts(1), subjects.options.tokens)[0] for _ in range(_RESPONSES)]

    answers, cost = costs.accounted(subjects, stream)
    # What a worker counts of a run it writes after it.
    time.sleep(_SETTLED_SECONDS)
    after, written_after = table_sizes.read(service.database), service.processes()
    tokens = sum(answer.output_tokens for answer in answers)
    tables = table_sizes.grown(before, after)
    disk = costs.grown(written, written_after, "written")
    foreign = {"service": round(cost.foreign / cost.seconds, 3)}
    stored = sum(tables.values())
    largest = next(iter(tables))
    return [
        Finding(
            "stored_bytes",
            f"stored for 1,000 tokens, {_RESPONSES} responses of {tokens // _RESPONSES} tokens",
            stored / tokens,
            "kB",
            None,
            is_ceiling=True,
            columns=(f"{largest}: {tables[largest] / tokens:.0f} kB", "", ""),
            detail={
                "tokens": tokens,
                "bytes_per_1000_tokens": {name: round(size * _THOUSAND / tokens) for name, size in tables.items()},
                "rows": _rows(subjects, answers),
                "foreign_cores": foreign,
            },
        ),
        Finding(
            "written_bytes",
            "written to the disk for 1,000 tokens",
            sum(disk.values()) / tokens,
            "kB",
            None,
            is_ceiling=True,
            columns=(f"{sum(disk.values()) / stored:.0f} times what is stored", "", ""),
            detail={
                "bytes_per_1000_tokens": {role: round(size * _THOUSAND / tokens) for role, size in disk.items()},
                "foreign_cores": foreign,
            },
        ),
    ]


def _rows(subjects: Subjects, answers: Sequence[Answer]) -> dict[str, dict[str, int]]:
    """Return how many rows there are of each kind, and the bytes of what they say."""
    ids = [answer.response["lmsp"]["task_id"] for answer in answers]
    marks = ", ".join("?" * len(ids))
    with closing(sqlite3.connect(f"{subjects.service.database.as_uri()}?mode=ro", uri=True)) as connection:
        found = [row for query in (_EVENTS, _JOURNAL) for row in connection.execute(query.format(marks), ids)]
    return {kind: {"rows": rows, "bytes": size} for kind, rows, size in found}
