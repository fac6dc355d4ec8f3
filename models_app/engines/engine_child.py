"""One engine process, seen from the host that started it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models_app.engines import memory, wire
from models_app.engines.base import ModelSpec
from models_app.engines.room import Occupant

_PROJECT_DIR = Path(__file__).parents[2]

_COMING_SECONDS = 10.0
"""How long whoever had a model loaded may take to come for it before it counts as idle."""


class EngineChild:
    """A process that loads a model and serves it on a socket of its own.

    What it reports comes through a pipe that only it writes to, so the pipe's end is the process's end.
    """

    def __init__(self, spec: ModelSpec, socket_address: str, needed: int = 0) -> None:
        self.spec = spec
        self.needed = needed
        """Bytes of memory that it is expected to take."""

        self.progress = 0.0
        self.address: dict[str, Any] | None = None
        """Where it serves, once it does."""

        self.error: dict[str, Any] | None = None
        """Why it could not."""

        self.asked_to_end: list[Callable[[], None]] = []
        """Called when it has ended, for those who wanted that."""

        self.heard_at = time.monotonic()
        """When it last said something."""

        self.step_seconds = 0.0
        """How long the step that it was computing then had taken."""

        self.is_ending = False
        """Whether it was asked to end, or has said that it will."""

        self.retires = False
        """Whether it takes nobody on any more."""

        self._asked_at = time.monotonic()
        """When somebody last had it loaded, or found that it was."""

        self._generations = 0
        self._idle_seconds = 0.0
        self._used = False
        self._socket_address = socket_address
        self._decoder = wire.LineDecoder()
        self.reports, report_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(report_fd, True)
        command = [sys.executable, "-m", "models_app.engines.process"]
        command += ["--socket", socket_address, "--spec", json.dumps(spec.to_dict())]
        command += ["--report-fd", str(report_fd), "--parent", str(os.getpid())]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[report_fd], cwd=_PROJECT_DIR)
        finally:
            os.close(report_fd)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def read_reports(self) -> bool:
        """Take in what the process has said. Returns False when it has ended."""
        data = os.read(self.reports, 65536)
        self.heard_at = time.monotonic()
        for report in self._decoder.feed(data):
            match report["type"]:
                case "loading":
                    self.progress = report["progress"]
                case "ready":
                    self.address = {name: value for name, value in report.items() if name != "type"}
                case "alive":
                    self.step_seconds = report["step_seconds"]
                    self._generations = report["generations"]
                    self._idle_seconds = report["idle_seconds"]
                    self._used = report["used"]
                case "retiring":
                    self.is_ending = self.retires = True
                case "busy":
                    self.is_ending = False
                    self._generations = max(1, self._generations)
                case "error":
                    self.error = report
        return bool(data)

    @property
    def idle_seconds(self) -> float | None:
        """How long it has generated for nobody; `None` while it does, or loads, or is about to be used."""
        if self.address is None or self._generations:
            return None
        now = time.monotonic()
        idle = min(self._idle_seconds + now - self.heard_at, now - self._asked_at)
        return idle if self._used or idle >= _COMING_SECONDS else None

    def note_interest(self) -> None:
        """Note that somebody is about to come."""
        self._asked_at = time.monotonic()

    def occupant(self) -> Occupant:
        """What it means to somebody who wants its place."""
        taken = memory.private_bytes(self.pid)
        return Occupant(self.spec.key, self.needed, taken, self.idle_seconds, ending=self.is_ending)

    def retire(self) -> None:
        """Ask it to end unless somebody has come for it meanwhile."""
        self.is_ending = True
        self._process.send_signal(signal.SIGUSR1)

    def reap(self) -> None:
        """Clean up after a process that has ended."""
        self._process.wait()
        os.close(self.reports)
        Path(self._socket_address).unlink(missing_ok=True)

    @property
    def exit_status(self) -> str:
        """How the process ended, once it was reaped: its exit code, or the signal that ended it."""
        code = self._process.returncode
        return signal.Signals(-code).name if code < 0 else str(code)

    def end_error(self) -> dict[str, Any]:
        """Why those who waited for it to load wait in vain: for the time after its end."""
        # Killed, it says nothing about its model. Whatever else it dies of, the next one would die of too.
        code = "engine_died" if self.was_killed else "engine_crashed"
        message = f"the engine process ended with status {self.exit_status} while it loaded"
        return self.error or {"type": "error", "code": code, "message": message}

    @property
    def was_killed(self) -> bool:
        """Whether somebody has ended it, once it was reaped."""
        return self.exit_status in ("SIGKILL", "SIGTERM")

    def terminate(self) -> None:
        """Ask it to end, which it does at once."""
        self.is_ending = True
        self._process.terminate()

    def kill(self) -> None:
        """Make it end."""
        self._process.kill()
