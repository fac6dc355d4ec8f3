"""A command that takes its time: run it, say how it is going, leave nothing of it behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmsp_site import processes

TERMINAL_INTERVAL = 1.0
LOG_INTERVAL = 15.0
STOP_GRACE = 10.0
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StepError(Exception):
    """The command ended with an error."""

    def __init__(self, returncode: int, output: str) -> None:
        super().__init__(f"exit status {returncode}")
        self.returncode = returncode
        self.output = output


def say(text: str) -> None:
    """Tell the person at the terminal."""
    print(text, flush=True)


def run(
    title: str,
    command: Sequence[str | Path],
    log: Path,
    *,
    stage: Callable[[str], str | None] = lambda _output: None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a command to its end and return its output, which also goes to the end of ``log``.

    Args:
        title: what is being done, for the person who waits.
        command: the program and its arguments.
        log: the file that gets the output.
        stage: what the command is at, judged by its output so far.
        env: the command's environment; this process's by default.

    Raises:
        StepError: it ended with another exit status than 0.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink, Progress(title) as progress:
        start = sink.tell()
        with _running(command, stdout=sink, stderr=subprocess.STDOUT, env=env) as process:
            while _is_running(process, progress.interval):
                progress.show(stage(_read(log, start)))
        output = _read(log, start)
        if process.returncode != 0:
            raise StepError(process.returncode, output)
        progress.done()
    return output


def run_visibly(command: Sequence[str | Path]) -> int:
    """Run a command whose output the person at the terminal reads; return its exit status."""
    with _running(command) as process:
        return process.wait()


@contextmanager
def _running(command: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command; if the block is left by an exception, the command and all that it started end."""
    process = None
    # An interrupt between the fork and the name it is remembered by would leave the process behind.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    end_with_this_one = processes.ends_with_parent()

    def in_child() -> None:
        end_with_this_one()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            # In its own session a Ctrl-C does not reach it; this process ends it, compilers included.
            start_new_session=True,
            preexec_fn=in_child,
            **options,
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield process
    except BaseException:
        if process is not None:
            _end(process)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _is_running(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    # Asked as by Ctrl-C, pip removes its temporary files, which SIGTERM would leave.
    deadline = time.monotonic() + STOP_GRACE
    processes.signal_session(process.pid, signal.SIGINT)
    while processes.session_members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes.kill_session(process.pid)
    process.wait()


def _read(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


class Progress:
    """A line with the time taken: rewritten in place on a terminal, repeated now and then in a log."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self.on_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.interval = TERMINAL_INTERVAL if self.on_terminal else LOG_INTERVAL

    def __enter__(self) -> "Progress":
        if self.on_terminal:
            self.show(None)
        else:
            say(f"{self.title} ...")
        return self

    def __exit__(self, *exception: object) -> None:
        if self.on_terminal:
            say("")

    def show(self, stage: str | None) -> None:
        """Say what is being done and for how long."""
        line = f"{self.title} ... {self.elapsed()}" + (f" ({stage})" if stage else "")
        if self.on_terminal:
            # Cut to one row: a line that wraps cannot be rewritten.
            print(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
        else:
            say(line)

    def done(self) -> None:
        """Say that it is done, and how long it took."""
        line = f"{self.title} ... done in {self.elapsed()}"
        if self.on_terminal:
            print(f"\r\x1b[K{line}", end="", flush=True)
        else:
            say(line)

    def elapsed(self) -> str:
        """Return the time since the start, as a person says it."""
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
