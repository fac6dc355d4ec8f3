"""What a start of the service takes for the tasks that the last one left over."""

import json
import subprocess
import sys
from typing import Any

from bench.findings import Finding
from bench.service import REPOSITORY, ServiceError, clean_environment
from bench.subjects import Subjects

_PROGRAM = "import django; django.setup(); from bench import left_over; left_over.main({})"
_COUNTS = (1_000, 10_000, 100_000)
_CEILING_SECONDS = 5.0
_TIMEOUT_SECONDS = 900.0


def measure(subjects: Subjects) -> list[Finding]:
    """Seconds for the most tasks, and microseconds for one of each number, by which it shows what grows how.

    Each number has a database and a process of its own. The service that runs beside it is idle.
    """
    runs = [_run(subjects, count) for count in _COUNTS]
    each = [run["seconds"] / run["tasks"] * 1e6 for run in runs]
    most = runs[-1]
    return [
        Finding(
            "recovery",
            f"recovery of {most['tasks']:,} tasks",
            most["seconds"],
            "s",
            _CEILING_SECONDS,
            is_ceiling=True,
            columns=(f"{each[-1]:.0f} µs a task", "", f"{min(each):.0f} to {max(each):.0f} µs"),
            detail={
                "microseconds_per_task": {
                    str(run["tasks"]): {
                        "wall": round(run["seconds"] / run["tasks"] * 1e6, 1),
                        "cpu": round(run["cpu_seconds"] / run["tasks"] * 1e6, 1),
                    }
                    for run in runs
                },
                "went": most["went"],
                "foreign_cores": {str(run["tasks"]): round(run["foreign_cores"], 3) for run in runs},
            },
        )
    ]


def _run(subjects: Subjects, count: int) -> dict[str, Any]:
    own = {
        "DJANGO_SETTINGS_MODULE": "lmsp_site.settings",
        "LMSP_DATA_DIR": str(subjects.service.data_dir.with_name(f"left-over-{count}")),
        "LMSP_LOG_LEVEL": "WARNING",
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(count)],
        cwd=REPOSITORY,
        env=clean_environment() | own,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise ServiceError(f"the recovery of {count} tasks failed: {done.stderr.strip()[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
