"""Group commit: many writers, few transactions, and each told its own result."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.db import OperationalError, connection, connections

from clients_app.models import Client
from lmsp_site import group_commit

WRITERS = 8


class Wrong(Exception):
    pass


@pytest.fixture
def pool(database: Path) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(WRITERS) as threads:
        yield threads
        closed = threading.Barrier(WRITERS)

        def close() -> None:
            connections.close_all()
            closed.wait(10)

        for done in [threads.submit(close) for _ in range(WRITERS)]:
            done.result(10)


@contextmanager
def locked(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


def asked_meanwhile(database: Path, pool: ThreadPoolExecutor, functions: list[Callable[[], int]]) -> list[Future[int]]:
    """Have all of them asked for while the first waits for the lock; return when the lock is free again."""
    with locked(database):
        asked = []
        for number, function in enumerate(functions):
            asked.append(pool.submit(group_commit.write, function))
            deadline = time.monotonic() + 10
            while not (group_commit._has_leader and len(group_commit._waiting) == number):
                assert time.monotonic() < deadline, "they wait behind the first one"
                time.sleep(0.001)
    return asked


def storing(name: str, failure: type[Exception] | None = None) -> Callable[[], int]:
    """Store a client and return the thread that did."""

    def store() -> int:
        assert connection.in_atomic_block
        Client.pair(name, [])
        if failure:
            raise failure(name)
        return threading.get_ident()

    return store


def names() -> list[str]:
    return sorted(Client.objects.values_list("name", flat=True))


def test_those_who_wait_are_written_by_one_of_them_in_the_order_of_their_coming(
    database: Path, pool: ThreadPoolExecutor
) -> None:
    order: list[int] = []

    def writer(number: int) -> Callable[[], int]:
        def store() -> int:
            order.append(number)
            return storing(str(number))()

        return store

    asked = asked_meanwhile(database, pool, [writer(number) for number in range(WRITERS)])
    threads = [each.result(10) for each in asked]
    assert len(set(threads)) == 2, "the first one, and one for all the others"
    assert len(set(threads[1:])) == 1
    assert order == list(range(WRITERS))
    assert names() == sorted(map(str, range(WRITERS)))
    assert group_commit.write(lambda: 5) == 5, "the next one finds the way free"


def test_one_that_fails_fails_alone(database: Path, pool: ThreadPoolExecutor) -> None:
    functions = [storing("first"), storing("a"), storing("b", Wrong), storing("c")]
    asked = asked_meanwhile(database, pool, functions)
    with pytest.raises(Wrong, match="b"):
        asked[2].result(10)
    for each in (asked[0], asked[1], asked[3]):
        each.result(10)
    assert names() == ["a", "c", "first"]


def test_all_are_told_when_the_lock_is_not_to_be_had(
    database: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.3)
    with locked(database):
        asked = [pool.submit(group_commit.write, storing(str(number))) for number in range(WRITERS)]
        began = time.monotonic()
        for each in asked:
            with pytest.raises(OperationalError, match="locked"):
                each.result(10)
        # Whoever waits for others' turn waits as long as for the lock itself: not for one turn after the other.
        assert time.monotonic() - began < 0.3 * WRITERS
    assert names() == []
    assert group_commit.write(storing("later")) == threading.get_ident()
    assert names() == ["later"]
