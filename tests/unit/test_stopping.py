"""The announcement of a stop ends with the process that made it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lmsp_site import stopping
from tests.service import REPOSITORY, eventually

_ANNOUNCE = "import sys, signal, pathlib; from lmsp_site import stopping; stopping.announce(pathlib.Path({!r}));"


def announcing(run_dir: Path, then: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", _ANNOUNCE.format(str(run_dir)) + then]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)


def test_nothing_is_announced_at_first_however_many_ask(tmp_path: Path) -> None:
    assert not stopping.is_announced(tmp_path)
    assert not stopping.is_announced(tmp_path)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_an_announcement_ends_with_its_process(tmp_path: Path, signum: signal.Signals) -> None:
    with announcing(tmp_path, "signal.pause()") as process:
        eventually(lambda: stopping.is_announced(tmp_path))
        assert stopping.is_announced(tmp_path)

        process.send_signal(signum)

        process.wait(20)
        assert not stopping.is_announced(tmp_path)


def test_a_program_that_was_started_meanwhile_does_not_hold_it(tmp_path: Path) -> None:
    then = "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid, flush=True)"
    with announcing(tmp_path, then) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.wait(20)
    try:
        assert not stopping.is_announced(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_operator_can_make_it_with_a_program(tmp_path: Path) -> None:
    lock = tmp_path / "stopping.lock"
    with subprocess.Popen(["flock", str(lock), "sleep", "600"], start_new_session=True) as process:
        eventually(lambda: lock.exists() and stopping.is_announced(tmp_path))
        os.killpg(process.pid, signal.SIGKILL)
    # Its child may die a little later.
    eventually(lambda: not stopping.is_announced(tmp_path))
