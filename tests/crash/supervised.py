"""A supervisor in a process of its own, over children that write down what happens to them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.service import eventually

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FAST = {"first_restart": 0.02, "longest_restart": 0.1, "steady_after": 30.0, "look": 0.05}


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Supervised:
    """A supervisor in a process of its own, and what its children wrote down."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = directory / "journal"
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes]

    def command(self, grace: float = 2, pace: dict[str, float] = FAST, **children: list[str]) -> list[str]:
        commands = {
            name: [sys.executable, str(HERE / "child.py"), name, str(self.journal), *traits]
            for name, traits in children.items()
        }
        description = {"children": commands, "grace": grace, "pace": pace}
        return [sys.executable, str(HERE / "supervise.py"), str(self.directory), json.dumps(description)]

    def start(self, **options: Any) -> None:
        """Start it and wait until every child has started once."""
        names = [name for name, value in options.items() if isinstance(value, list)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(**options), cwd=ROOT, stderr=log, env=environment())
        eventually(lambda: all(self.pids(name) for name in names))

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(signum)
        return self.process.wait(20)

    def clean_up(self) -> set[int]:
        """Stop everything, by force where that is needed; return the children that needed it."""
        if hasattr(self, "process") and self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
            self.process.kill()
            self.process.wait()
        left = self.living()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left

    def events(self) -> list[tuple[str, str, int]]:
        if not self.journal.exists():
            return []
        lines = (line.split() for line in self.journal.read_text().splitlines())
        return [(name, event, int(pid)) for name, event, pid in lines]

    def pids(self, child: str, event: str = "started") -> list[int]:
        return [pid for name, what, pid in self.events() if (name, what) == (child, event)]

    def restarted(self, child: str) -> list[int]:
        """Wait for a child's second process; return the ids of both."""
        eventually(lambda: len(self.pids(child)) == 2)
        return self.pids(child)

    def living(self) -> set[int]:
        return {pid for _, _, pid in self.events() if is_alive(pid)}

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}
