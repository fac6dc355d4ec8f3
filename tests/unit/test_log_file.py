"""The log file: many processes write it, it is renamed under their hands, and no line is lost or torn."""

import fcntl
import json
import logging
import os
import resource
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lmsp_site.log_file import GENERATIONS, LogFileHandler
from tests.service import REPOSITORY, eventually

# Writes numbered lines, some longer than any buffer, until told to stop or for so many.
_WRITER = """
import logging, signal, sys
from lmsp_site import logs
logs.configure()
logging.lastResort = None
name, lines = sys.argv[1], int(sys.argv[2])
print("started", flush=True)
for number in range(lines):
    logging.info("line", extra={"writer": name, "number": number, "filler": "x" * (12000 if number % 50 == 0 else 80)})
"""


class Files:
    """A log file and its generations."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.most_bytes = most_bytes

    @contextmanager
    def writer(self, name: str, lines: int) -> Iterator[subprocess.Popen[str]]:
        environment = {
            **os.environ,
            "LMSP_LOG_FORMAT": "json",
            "LMSP_LOG_LEVEL": "INFO",
            "LMSP_LOG_FILE": f"{self.path}:{self.most_bytes}",
        }
        command = [sys.executable, "-c", _WRITER, name, str(lines)]
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def all(self) -> list[Path]:
        """Every generation, the oldest first."""
        older = [self.path.with_name(f"{self.path.name}.{number}") for number in range(GENERATIONS, 0, -1)]
        return [file for file in (*older, self.path) if file.exists()]

    def lines(self) -> list[tuple[str, int]]:
        """What each line says, which must be one whole JSON object."""
        found = [json.loads(line) for file in self.all() for line in file.read_text().splitlines()]
        return [(line["writer"], line["number"]) for line in found]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "service.log", 600_000)


def test_many_processes_write_across_renamings_and_no_line_is_lost_or_torn(files: Files) -> None:
    # Each writes 430 kB: the file is renamed two or three times, and nothing goes beyond what is kept.
    with ExitStack() as stack:
        writers = [stack.enter_context(files.writer(str(number), 1000)) for number in range(4)]
        assert [writer.wait(60) for writer in writers] == [0] * 4
    assert len(files.all()) in (3, 4)
    counted = Counter(files.lines())
    assert counted == {(str(writer), number): 1 for writer in range(4) for number in range(1000)}
    for writer in range(4):
        numbers = [number for name, number in files.lines() if name == str(writer)]
        assert numbers == sorted(numbers)
    for file in files.all():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        # While one renames it, the others go on writing.
        assert file.stat().st_size < 2 * files.most_bytes


def test_one_who_is_killed_or_stopped_in_the_middle_is_waited_for_by_nobody(files: Files) -> None:
    with files.writer("killed", 10**9) as killed, files.writer("stopped", 10**9) as stopped:
        eventually(lambda: len(files.all()) > 2)
        killed.kill()
        stopped.send_signal(signal.SIGSTOP)
        with files.writer("alive", 2000) as alive:
            assert alive.wait(30) == 0
        numbers = [number for name, number in files.lines() if name == "alive"]
        assert numbers == list(range(2000))


def test_so_many_generations_are_kept(files: Files) -> None:
    with files.writer("one", 12_000) as writer:
        assert writer.wait(60) == 0
    assert [file.name for file in files.all()] == [
        *(f"service.log.{number}" for number in range(GENERATIONS - 1, 0, -1)),
        "service.log",
    ]
    numbers = [number for _, number in files.lines()]
    assert numbers == list(range(numbers[0], 12_000)), "what is kept is the youngest, without a gap"


def test_a_renaming_that_was_broken_off_costs_no_generation(files: Files) -> None:
    for number, text in ((1, "young"), (3, "old"), (4, "oldest")):
        files.path.with_name(f"service.log.{number}").write_text(text)
    with files.writer("one", 1500) as writer:
        assert writer.wait(60) == 0
    assert [file.read_text() for file in files.all()[:3]] == ["oldest", "old", "young"]


def test_nobody_waits_for_one_who_is_stopped_while_he_renames(files: Files) -> None:
    with files.path.with_name("service.log.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with files.writer("one", 2000) as writer:
            assert writer.wait(30) == 0
        assert files.all() == [files.path]
        assert files.path.stat().st_size > files.most_bytes
    with files.writer("two", 1) as writer:
        assert writer.wait(30) == 0
    assert [file.name for file in files.all()] == ["service.log.1"]


@pytest.fixture
def logger(files: Files) -> Iterator[Callable[[], logging.Logger]]:
    handlers = []

    def make() -> logging.Logger:
        handler = LogFileHandler(str(files.path), files.most_bytes)
        handlers.append(handler)
        made = logging.Logger("tests.log_file")  # noqa: LOG001
        made.addHandler(handler)
        return made

    yield make
    for handler in handlers:
        handler.close()


def test_a_file_that_was_moved_away_by_others_is_made_anew(
    files: Files, logger: Callable[[], logging.Logger], tmp_path: Path
) -> None:
    log = logger()
    log.info("one")
    files.path.rename(tmp_path / "taken")
    log.info("two")
    assert (tmp_path / "taken").read_text() == "one\n"
    assert files.path.read_text() == "two\n"


def test_what_cannot_be_written_is_nobodys_trouble(
    files: Files, logger: Callable[[], logging.Logger], capfd: pytest.CaptureFixture[str]
) -> None:
    log = logger()
    # A device that is always full.
    files.path.symlink_to("/dev/full")
    log.error("lost")
    files.path.unlink()
    log.info("there is room again")
    assert files.path.read_text() == "there is room again\n"
    assert capfd.readouterr().err == ""


def test_a_line_that_was_cut_off_does_not_spoil_the_next(files: Files, logger: Callable[[], logging.Logger]) -> None:
    log = logger()
    log.info("whole")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # As a disk does that has room for three more bytes.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len("whole\ncut"), hard))
    try:
        log.info("cut off")
        log.info("lost")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    log.info("whole again")
    assert files.path.read_text() == "whole\ncut\nwhole again\n"
