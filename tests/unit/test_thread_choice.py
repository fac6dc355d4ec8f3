"""Which number of threads is chosen on machines whose speeds are given."""

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from models_app.engines.cores import default_threads, usable_cores
from models_app.engines.thread_choice import ThreadChoice, Threads, candidates

Speed = Callable[[int, int], float]
"""Seconds of a computation, by threads and rows."""


class _Machine:
    """Time that passes only while something is computed."""

    def __init__(self, numbers: list[int], first: int) -> None:
        self.now = 0.0
        self.choice = ThreadChoice(numbers, first, clock=lambda: self.now)

    def compute(self, count: int, speed: Speed, rows: int = 1) -> Counter[int]:
        """Do so many computations, and return how many had how many threads."""
        used: Counter[int] = Counter()
        for _ in range(count):
            threads = self.choice.begin(rows)
            self.now += speed(threads, rows)
            self.choice.end()
            used[threads] += 1
        return used


def _used(choice: ThreadChoice, times: int) -> set[int]:
    """Return what the choice says before each of so many computations."""
    found = set()
    for _ in range(times):
        found.add(choice.begin(1))
        choice.end()
    return found


def quiet(threads: int, rows: int) -> float:
    """Seconds where nothing else runs: all threads help."""
    return 0.010 * rows / threads


def busy(threads: int, rows: int) -> float:
    """Seconds where others use a core of two: the second thread waits for it."""
    return 0.015 * rows * (1 if threads == 1 else 8)


def test_what_is_faster_is_taken_soon_and_kept() -> None:
    machine = _Machine([1, 2], first=1)
    assert machine.compute(30, quiet)[2] >= 10
    assert machine.choice.threads == 2
    assert machine.compute(2000, quiet)[2] > 1900


def test_what_is_slower_is_tried_seldom() -> None:
    machine = _Machine([1, 2], first=1)
    used = machine.compute(20_000, busy)
    assert 0 < used[2] < 100
    assert machine.now < 20_000 * busy(1, 1) * 1.05
    assert machine.choice.threads == 1


def test_a_machine_that_gets_other_work_and_loses_it_again_is_noticed() -> None:
    machine = _Machine([1, 2], first=1)
    machine.compute(1000, quiet)
    for speed, threads in ((busy, 1), (quiet, 2), (busy, 1)):
        began = machine.now
        while machine.choice.threads != threads:
            machine.compute(1, speed)
        assert machine.now - began < 61, "the longest pause, and a trial"


def test_of_many_cores_the_number_is_found_beyond_which_more_do_not_help() -> None:
    numbers = candidates(16)
    assert numbers == [4, 8, 12, 15, 16]
    machine = _Machine(numbers, first=15)
    machine.compute(5000, lambda threads, _rows: 0.010 / min(threads, 8) + 0.0002 * threads)
    assert machine.choice.threads == 8


def test_decodes_of_other_sizes_are_not_compared() -> None:
    # A single row is always faster than four, whoever computes it.
    machine = _Machine([1, 2], first=1)
    for rows in itertools.islice(itertools.cycle((1, 4)), 200):
        machine.compute(5, busy, rows)
    assert machine.choice.threads == 1


def test_where_the_operator_has_said_how_many_there_is_no_choice() -> None:
    threads = Threads(3)
    assert set(threads.info().values()) == {3}
    for choice in (threads.of_prefill(), threads.of_decode(1, 0), threads.of_decode(4, 1000)):
        assert _used(choice, 50) == {3}


def test_a_number_that_decides_bits_is_never_changed() -> None:
    threads = Threads(0)
    assert threads.settled == default_threads()
    choice = threads.of_decode(1, 256)
    assert choice is not threads.of_decode(1, 255)
    assert _used(choice, 100) == {threads.settled}


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/", {"cpu.max": "100000 100000"}, 1),
        # A unit of systemd, by a limit of its slice.
        ("0::/outer/inner", {"outer/cpu.max": "100000 100000", "outer/inner/cpu.max": "max 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "nonsense"}, None),
        ("3:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "50000", "cpu/x/cpu.cfs_period_us": "100000"}, 1),
        ("3:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, None),
        ("4:memory:/", {"cpu.max": "100000 100000"}, None),
    ],
)
def test_a_container_has_the_cores_that_it_is_granted(
    tmp_path: Path, group: str, files: dict[str, str], cores: int | None
) -> None:
    for name, written in {
        "proc/self/cgroup": group,
        **{f"sys/fs/cgroup/{name}": files[name] for name in files},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{written}\n")
    assert usable_cores(tmp_path) == (cores or usable_cores(tmp_path / "not there"))
