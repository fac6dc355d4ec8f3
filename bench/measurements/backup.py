"""What a backup of a large database does to a task that streams meanwhile, and how fast it is."""

from functools import partial

from bench import stalls
from bench.findings import Finding
from bench.subjects import Subjects

_MEGABYTE = 1_000_000


def measure(subjects: Subjects) -> list[Finding]:
    """Megabytes a second, copied and verified, and by how much longer a stream stalls than before.

    What is written while the copy is read stays in the write-ahead log: by how much that grows is told as well.
    """
    service = subjects.service
    subjects.fill()
    _, without = stalls.watch(subjects, stalls.quiet)
    file, log = (service.database.with_name(name) for name in ("backup.sqlite3", f"{service.database.name}-wal"))
    before = log.stat().st_size
    answer, during = stalls.watch(subjects, partial(service.manage, "backup", str(file)))
    # The file of the log never shrinks by itself.
    grown = log.stat().st_size - before
    file.unlink()
    size = answer["bytes"] / _MEGABYTE
    title = f"backup of {size:.0f} MB"
    return [
        *stalls.findings("backup", title, during, without, None),
        Finding(
            "backup_speed",
            title,
            size / answer["seconds"],
            "MB/s",
            None,
            is_ceiling=False,
            columns=(f"{answer['seconds']:.0f} s", "", f"log grew by {grown / _MEGABYTE:.1f} MB"),
            detail={
                "seconds": answer["seconds"],
                "bytes": answer["bytes"],
                "events": answer["events"],
                "log_bytes_before": before,
                "log_bytes_grown": grown,
            },
        ),
    ]
