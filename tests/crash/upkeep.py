"""What an operator's timers do while the service is under fire: purges and backups, and a look at each backup."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from tests.crash.repeated import Repeated
from tests.service import REPOSITORY, Service

_PURGE_PAUSE_SECONDS = 4.0
_BACKUP_PAUSE_SECONDS = 60.0
_TIMEOUT_SECONDS = 180.0
_AGE = "-31 days"
_OLD = "finished_at < datetime('now', '-30 days')"


class Upkeep:
    """Purges and backs up a service again and again, as long as the context is entered.

    A purge would take the rows that a judge has to see. So tasks are young until they have been judged; then
    ``let_go`` ages them, and the product's own purge finds them, while the next tasks run.
    """

    def __init__(self, service: Service) -> None:
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self._service = service
        self._directory = service.data_dir.with_name("backups")
        self._timers: list[Repeated] = []
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._timers = [
            Repeated("purge", self._purge, _PURGE_PAUSE_SECONDS),
            Repeated("backup", self._back_up, _BACKUP_PAUSE_SECONDS),
        ]
        for timer in self._timers:
            self._running.enter_context(timer)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        self.faults += [fault for timer in self._timers for fault in timer.faults]

    def let_go(self, prefix: str) -> None:
        """Let the finished tasks of a round, which has been judged, be old."""
        self._service.sql(
            f"UPDATE tasks SET finished_at = datetime('now', '{_AGE}')"
            " WHERE finished_at IS NOT NULL AND json_extract(metadata, '$.soak') LIKE ?",
            f"{prefix}-%",
        )

    def finish(self, young: int) -> None:
        """Purge what is left to be purged, and look at what that has left: nothing old, and `young` unmarked tasks."""
        try:
            self._purge()
        except AssertionError as fault:
            self.faults.append(f"purge: {fault}")
        (old,) = self._service.sql(f"SELECT count(*) FROM tasks WHERE {_OLD}")[0]
        if old:
            self.faults.append(f"purge: {old} old tasks were not removed")
        (left,) = self._service.sql("SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.soak') IS NULL")[0]
        if left != young:
            self.faults.append(f"purge: {left} of {young} young tasks are left")

    def _purge(self) -> None:
        answer = self._manage("purge_tasks")
        self.done.update(purges=1, **{f"purge_{name}": count for name, count in answer.items()})

    def _back_up(self) -> None:
        """Back up, and hold the copy against the database; have it restored elsewhere, and audited there."""
        self._directory.mkdir()
        try:
            file = self._directory / "backup.sqlite3"
            before = self._task_ids()
            answer = self._manage("backup", str(file))
            # What was there before and after was there at the moment of the copy.
            expected = before & self._task_ids()
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as copy:
                (health,) = copy.execute("PRAGMA integrity_check").fetchone()
                held = {task_id for (task_id,) in copy.execute("SELECT id FROM tasks")}
            if health != "ok" or expected - held:
                raise AssertionError(f"integrity: {health}; tasks that are not in it: {sorted(expected - held)}")
            restored = self._directory / "restored"
            self._manage("restore", str(file), data_dir=restored)
            audited = self._manage("check_log", data_dir=restored)
            if audited["tasks"] != answer["tasks"]:
                raise AssertionError(f"{answer['tasks']} tasks were backed up, {audited['tasks']} were restored")
            self.done.update(backups=1, backup_bytes=answer["bytes"])
        finally:
            shutil.rmtree(self._directory)

    def _task_ids(self) -> set[str]:
        return {task_id for (task_id,) in self._service.sql("SELECT id FROM tasks")}

    def _manage(self, *arguments: str, data_dir: Path | None = None) -> dict[str, Any]:
        """Run a command as an operator does, beside the service: who kills all that is the service's spares it."""
        # The same directory by another name: by its name in the environment the service's processes are found.
        environment = self._service.environment | {"LMSP_DATA_DIR": str(data_dir or f"{self._service.data_dir}/.")}
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments, "--json"],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"{arguments[0]} ended with {done.returncode}: {done.stdout}{done.stderr[-2000:]}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
