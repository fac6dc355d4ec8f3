"""Open streams are those of all web processes that live."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmsp_site import open_streams
from tests.service import REPOSITORY

_PROGRAM = """
import django, sys
django.setup()
from lmsp_site import open_streams
with open_streams.counted("sse"), open_streams.counted("sse"):
    with open_streams.counted("websocket"):
        print("three", flush=True)
        sys.stdin.readline()
    print("two", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start a process that has three streams open, and closes one when it is told to go on."""
    started = []

    def start_one() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            cwd=REPOSITORY,
            env={**os.environ, "LMSP_DATA_DIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "three\n"
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def test_living_processes_add_up_and_dead_ones_do_not_count(
    tmp_path: Path, start: Callable[[], subprocess.Popen[str]]
) -> None:
    run_dir = tmp_path / "run"
    first, second = start(), start()
    assert open_streams.totals(run_dir) == {"sse": 4, "websocket": 2}
    assert first.stdin
    assert first.stdout
    first.stdin.write("\n")
    first.stdin.flush()
    assert first.stdout.readline() == "two\n"
    assert open_streams.totals(run_dir) == {"sse": 4, "websocket": 1}
    second.kill()
    second.wait()
    assert open_streams.totals(run_dir) == {"sse": 2, "websocket": 0}
    start()
    assert open_streams.totals(run_dir) == {"sse": 4, "websocket": 1}
    assert len(list((run_dir / "streams").iterdir())) == 2, "the file of the dead one is removed by the next"


def test_without_streams_there_are_none(tmp_path: Path) -> None:
    assert open_streams.totals(tmp_path) == {"sse": 0, "websocket": 0}
