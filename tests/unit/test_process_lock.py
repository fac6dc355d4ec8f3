"""A lock that does not outlive its holder."""

import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing import Value
from pathlib import Path
from typing import Any

import pytest

from lmsp_site.processes import ends_with_parent
from tasks_app.process_lock import ProcessLock
from tests.service import eventually


class Children:
    """Forked processes, none of which outlives its test."""

    def __init__(self) -> None:
        self.living: set[int] = set()

    def fork(self, run: Callable[[], None]) -> int:
        """Run something in a child process that never returns to the test."""
        in_child = ends_with_parent()
        pid = os.fork()
        if pid == 0:
            try:
                in_child()
                run()
                os._exit(0)
            finally:
                os._exit(1)
        self.living.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        self.living.remove(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def take(self, lock: ProcessLock) -> tuple[int, int]:
        """Start a child that takes the lock and keeps it; return its id and the end of a pipe that says when."""
        told, tell = os.pipe()

        def hold() -> None:
            lock.acquire()
            os.write(tell, b"taken")
            signal.pause()

        pid = self.fork(hold)
        os.close(tell)
        return pid, told


@pytest.fixture
def children() -> Iterator[Children]:
    children = Children()
    yield children
    for pid in list(children.living):
        children.kill(pid)


def is_told(told: int) -> bool:
    os.set_blocking(told, False)
    try:
        return os.read(told, 16) == b"taken"
    except BlockingIOError:
        return False


def waits_for_a_lock(pid: int) -> bool:
    return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_a_lock_is_free_when_its_holder_is_killed(children: Children) -> None:
    lock = ProcessLock()
    holder, told = children.take(lock)
    eventually(lambda: is_told(told))
    waiter, told_later = children.take(lock)
    eventually(lambda: waits_for_a_lock(waiter))
    assert not is_told(told_later)

    children.kill(holder)

    eventually(lambda: is_told(told_later))
    children.kill(waiter)
    with lock:
        pass


def test_it_is_held_until_it_was_given_back_as_often_as_taken(children: Children) -> None:
    lock = ProcessLock()
    lock.acquire()
    lock.acquire()
    waiter, told = children.take(lock)
    eventually(lambda: waits_for_a_lock(waiter))
    lock.release()
    assert not is_told(told)
    assert waits_for_a_lock(waiter)

    lock.release()

    eventually(lambda: is_told(told))


def test_what_was_not_taken_cannot_be_given_back() -> None:
    with pytest.raises(AssertionError):
        ProcessLock().release()


def test_processes_count_together_under_it(children: Children) -> None:
    lock: Any = ProcessLock()
    count = Value("i", 0, lock=lock)

    def add() -> None:
        for _ in range(2000):
            with count.get_lock():
                count.value += 1

    for pid in [children.fork(add) for _ in range(4)]:
        children.living.remove(pid)
        assert os.waitpid(pid, 0)[1] == 0
    assert count.value == 8000
