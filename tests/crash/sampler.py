"""Looks at the service's processes and files every two seconds, by what they are to it (Linux)."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.crash.record import Kill, Reading, Record, Sizes
from tests.crash.repeated import Repeated
from tests.service import Service

_PAUSE_SECONDS = 2.0
_ROLE_OF = {
    "models_app.engines.process": "engine",
    "models_app.engines.host": "host",
    "daphne": "web",
    "run_workers": "cluster",
}
"""What stands in a process's command line, and its role; a worker is a process of the cluster that has a name."""

ROLES = {"supervisor", "worker", *_ROLE_OF.values()}


class Sampler(Repeated):
    """Fills a record as long as its context is entered."""

    def __init__(self, service: Service) -> None:
        super().__init__("sampler", self._look, _PAUSE_SECONDS)
        self.record = Record()
        self._service = service
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return super().__enter__()

    def mark(self, victim: str) -> None:
        """Note that somebody was killed just now."""
        self.record.kills.append(Kill(self._now(), victim))

    def _look(self) -> None:
        now = self._now()
        for pid in self._service.processes():
            # It may end at any moment.
            with suppress(OSError):
                if role := self._role(pid):
                    self.record.readings.append(_reading(now, role, pid))
        database = self._service.data_dir / "db.sqlite3"
        self.record.sizes.append(Sizes(now, _size(database), _size(database.with_name("db.sqlite3-wal"))))

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def _role(self, pid: int) -> str | None:
        """Return what the process is; None for one that does a short errand."""
        assert self._service.process is not None
        if pid == self._service.process.pid:
            return "supervisor"
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        role = next((role for part, role in _ROLE_OF.items() if part in command), None)
        if role == "cluster" and list((self._service.data_dir / "run" / "owners").glob(f"worker-{pid}-*")):
            return "worker"
        return role


def _reading(seconds: float, role: str, pid: int) -> Reading:
    directory = Path(f"/proc/{pid}")
    lines = (directory / "smaps_rollup").read_text().splitlines()[1:]
    memory = {name: int(size.split()[0]) * 1024 for name, _, size in (line.partition(":") for line in lines)}
    handles, threads = (len(list((directory / kind).iterdir())) for kind in ("fd", "task"))
    return Reading(seconds, role, pid, memory["Pss"], memory["Rss"], handles, threads)


def _size(path: Path) -> int:
    # The log is not there while nobody has the database open.
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
