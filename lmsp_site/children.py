"""One child process of the service: start it, ask it to stop, see how it ended, leave nothing of it behind."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lmsp_site import processes


@dataclass(frozen=True)
class ChildSpec:
    """What a child is.

    Attributes:
        name: what it is called in the log.
        command: the program and its arguments.
        descriptors: the file descriptors that it shares with its parent.
        stalled: tells that it lives and does not do its work; called every few seconds.
    """

    name: str
    command: Sequence[str]
    descriptors: tuple[int, ...] = ()
    stalled: Callable[[], bool] | None = None


class Child:
    """A child process, and after its end the next one with the same specification."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.failures = 0
        self.started_at = 0.0
        self.restart_at: float | None = None
        self.kill_at: float | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, from its start until it has been buried."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process in a session of its own; it is killed when this process ends, however that ends.

        Raises:
            OSError: it cannot be started.
        """
        # The kernel ends a child with the thread that started it, not with the process.
        assert threading.current_thread() is threading.main_thread()
        self.restart_at = self.kill_at = None
        self.started_at = time.monotonic()
        self._process = subprocess.Popen(
            self.spec.command,
            stdin=subprocess.DEVNULL,
            pass_fds=self.spec.descriptors,
            start_new_session=True,
            preexec_fn=processes.ends_with_parent(),
        )

    def terminate(self) -> None:
        """Ask the main process to stop. It stops what it started in the order that it knows."""
        if self._process:
            # Not by `send_signal`, which reaps a process that has ended.
            os.kill(self._process.pid, signal.SIGTERM)

    def has_ended(self) -> bool:
        """Tell whether the process has ended and waits to be buried."""
        # It stays unreaped: until then no other process can have its number, nor another session.
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._process is not None and os.waitid(os.P_PID, self._process.pid, ended) is not None

    def bury(self) -> tuple[str, list[int]]:
        """End the process and everything it started.

        Returns:
            How the process ended, and those of its session that could not be killed.
        """
        assert self._process
        survivors = processes.kill_session(self._process.pid)
        status = "cannot be killed" if self._process.pid in survivors else _describe(self._process.wait())
        self._process = self.kill_at = None
        return status, survivors


def _describe(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    return f"signal {signal.Signals(-returncode).name}"
