"""What a start of the service takes for the tasks that the last one left over."""

import shutil
from typing import Any

from bench.findings import Finding
from bench.service import in_django
from bench.subjects import Subjects

# What a service leaves in such numbers waits: it runs few tasks at once. And every cell of the table, in equal parts.
_MIXES = {"waiting": ["queued"], "all states": ["queued", "loading", "running", "cancelling"]}
_COUNTS = (1_000, 10_000, 100_000)
_CEILING_SECONDS = 5.0


def measure(subjects: Subjects) -> list[Finding]:
    """Seconds for the most tasks, and microseconds for one of each number, by which it shows what grows how.

    Each number has a database and a process of its own. The service that runs beside it is idle.
    """
    return [_finding(mix, [_run(subjects, mix, count) for count in _COUNTS]) for mix in _MIXES]


def _finding(mix: str, runs: list[dict[str, Any]]) -> Finding:
    each = {run["tasks"]: run["seconds"] / run["tasks"] * 1e6 for run in runs}
    most, _low, _high = runs[-1], min(each.values()), max(each.values())
    return Finding(
        f"recovery_{mix.replace(' ', '_')}",
        f"recovery of {most['tasks']:,} tasks, {mix}",
        most["seconds"],
        "s",
        _CEILING_SECONDS,
        is_ceiling=True,
        columns=(
            f"{each[most['tasks']]:.0f} µs a task",
            "",
            f"{min(each.values()):.0f} to {max(each.values()):.0f} µs",
        ),
        detail={
            "microseconds_per_task": {
                str(run["tasks"]): {
                    "wall": round(each[run["tasks"]], 1),
                    "cpu": round(run["cpu_seconds"] / run["tasks"] * 1e6, 1),
                }
                for run in runs
            },
            "went": most["went"],
            "foreign_cores": {str(run["tasks"]): round(run["foreign_cores"], 3) for run in runs},
        },
    )


def _run(subjects: Subjects, mix: str, count: int) -> dict[str, Any]:
    data_dir = subjects.service.data_dir.with_name(f"left-over-{mix.replace(' ', '-')}-{count}")
    result = in_django(data_dir, "left_over", f"main({count}, {_MIXES[mix]})")
    shutil.rmtree(data_dir)
    return result
