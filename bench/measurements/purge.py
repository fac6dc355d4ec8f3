"""What the purge of a million events does to a task that streams meanwhile."""

import sqlite3
import subprocess
from contextlib import closing, suppress

from bench import stalls
from bench.findings import Finding
from bench.service import Service, in_django
from bench.subjects import Subjects

_CEILING_MS = 50.0
_MEGABYTE = 1_000_000
# What was copied has numbers for ids, which come before all others.
_COPIED = "SELECT count(*) FROM task_events WHERE task_id < 'task_01'"


def measure(subjects: Subjects) -> list[Finding]:
    """Milliseconds by which a stream stalls longer than before on the same database, and events a second.

    The purge is broken off after a time, as by any end of its process. Freed pages are given back at its end.
    """
    service, limit = subjects.service, subjects.options.purge_seconds
    subjects.fill()
    _, without = stalls.watch(subjects, stalls.quiet)
    in_django(service.data_dir, "old_tasks", "let_go()")
    all_of_them, size = _copied(service), service.database.stat().st_size

    def purge() -> None:
        with suppress(subprocess.TimeoutExpired):
            service.manage("purge_tasks", timeout=limit)

    _, during = stalls.watch(subjects, purge)
    left = _copied(service)
    # What streams meanwhile makes the file grow a little.
    removed, given_back = all_of_them - left, max(size - service.database.stat().st_size, 0)
    title = f"purge of {all_of_them:,} events"
    return [
        *stalls.findings("purge", title, during, without, _CEILING_MS),
        Finding(
            "purge_speed",
            title,
            removed / during.seconds,
            "events/s",
            None,
            is_ceiling=False,
            columns=(
                f"{removed:,} in {during.seconds:.0f} s",
                "broken off" if left else "",
                f"{given_back / _MEGABYTE:.0f} MB given back",
            ),
            detail={
                "seconds": round(during.seconds, 1),
                "events_removed": removed,
                "events_left": left,
                "bytes_given_back": given_back,
            },
        ),
    ]


def _copied(service: Service) -> int:
    with closing(sqlite3.connect(f"{service.database.as_uri()}?mode=ro", uri=True)) as connection:
        return int(connection.execute(_COPIED).fetchone()[0])
