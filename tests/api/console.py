"""Commands as a person starts them: in a terminal of some width, or with their output in a pipe."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.service import REPOSITORY


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "manage.py", *arguments]


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    return {**kept, "LMSP_DATA_DIR": str(data_dir), "LMSP_LOG_LEVEL": "INFO", "TERM": "xterm", **more}


def piped(data_dir: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its output in pipes."""
    return subprocess.run(
        command(*arguments),
        cwd=REPOSITORY,
        env=environment(data_dir, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def on_terminal(
    data_dir: Path, *arguments: str, until: Callable[[str], bool] | None = None, **more: str
) -> tuple[int, str]:
    """Run a command on a terminal of its own and return its exit status and all that it drew.

    Args:
        data_dir: where it works.
        arguments: the command's.
        until: once true of what was drawn, Ctrl-C is sent.
        more: variables of its environment.
    """
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
        cwd=REPOSITORY,
        env=environment(data_dir, **more),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    drawn, deadline = b"", time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if select.select([controller], [], [], 0.1)[0]:
                try:
                    drawn += os.read(controller, 65536)
                except OSError:
                    break  # Nobody has the terminal open any more.
            if until and until(drawn.decode(errors="replace")):
                process.send_signal(signal.SIGINT)
                until = None
        return process.wait(10), drawn.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(controller)
