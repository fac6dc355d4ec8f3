"""The database is locked by another process exactly when tasks would end: they end by themselves once it is free."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash import victims
from tests.crash.finish_line import (
    BOUND_SECONDS,
    STORY,
    check_database,
    check_end,
    engine_is_done,
    lock,
    one_token,
    state,
)
from tests.crash.victims import Victim
from tests.service import Service, eventually

# For so long the service waits for a lock at one time.
_WAIT_FOR_LOCK_SECONDS = 19.0
_TOKENS = 60


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Service]:
    """A service in which a long prompt takes its time again and again."""
    with Service(tmp_path / "data", LMSP_PREFIX_CACHE_MB="0") as running:
        yield running


def _wait_for_tokens(service: Service, task: str, number: int) -> None:
    eventually(lambda: state(service, task)[1] > number, 60)


def _before_the_end(service: Service) -> tuple[str, str, sqlite3.Connection]:
    """Return two tasks of which hardly more than the last commit is left, and the connection that holds the lock."""
    for _ in range(5):
        many = service.create(STORY, max_output_tokens=_TOKENS, on_restart="fail")["id"]
        _wait_for_tokens(service, many, 30)
        one = one_token(service, on_restart="fail")
        holder = sqlite3.connect(service.data_dir / "db.sqlite3", timeout=30, isolation_level=None)
        while holder.execute("SELECT output_tokens FROM tasks WHERE id = ?", [many]).fetchone()[0] < _TOKENS - 3:
            pass
        holder.execute("BEGIN IMMEDIATE")
        if state(service, many)[0] == state(service, one)[0] == "running":
            return many, one, holder
        holder.close()
    raise AssertionError("each time the last commit was faster")


def test_tasks_that_would_end_do_so_when_the_lock_is_gone(own_service: Service) -> None:
    twin = own_service.finished(own_service.create(STORY, max_output_tokens=_TOKENS)["id"])
    short_twin = own_service.finished(one_token(own_service))
    many, one, holder = _before_the_end(own_service)
    with closing(holder):
        began = time.monotonic()
        eventually(lambda: engine_is_done(own_service), 120)
        eventually(lambda: "waiting for the storage" in own_service.log.read_text(), 60)
        assert time.monotonic() - began > _WAIT_FOR_LOCK_SECONDS
        assert state(own_service, one) == ("running", 0)
        assert state(own_service, many)[0] == "running"
        assert state(own_service, many)[1] < _TOKENS
        holder.execute("ROLLBACK")
    freed = time.monotonic()
    eventually(lambda: state(own_service, many)[0] == state(own_service, one)[0] == "completed", BOUND_SECONDS)
    assert time.monotonic() - freed < BOUND_SECONDS
    check_end(own_service, many, twin)
    check_end(own_service, one, short_twin)
    check_database(own_service)


def test_a_cancel_that_cannot_be_finished_is_finished_when_the_lock_is_gone(own_service: Service) -> None:
    # While its prompt is read the worker writes nothing: the first that it wants to write is the end of the cancel.
    task = one_token(own_service)
    (worker,) = victims.find(own_service, Victim.BUSY_WORKER)
    os.kill(worker, signal.SIGSTOP)
    assert own_service.request("POST", f"/v1/tasks/{task}/cancel").json()["status"] == "cancelling"
    with lock(own_service):
        os.kill(worker, signal.SIGCONT)
        again = own_service.request("POST", f"/v1/tasks/{task}/cancel")
        assert (again.status_code, again.json()["error"]["code"]) == (503, "database_locked")
        eventually(lambda: engine_is_done(own_service), 60)
        assert state(own_service, task) == ("cancelling", 0)
    freed = time.monotonic()
    eventually(lambda: state(own_service, task)[0] == "cancelled", BOUND_SECONDS)
    assert time.monotonic() - freed < BOUND_SECONDS
    assert [event["type"] for event in own_service.events(task)][-2:] == ["response.cancelling", "response.cancelled"]
    check_database(own_service)


def test_workers_that_take_nothing_while_the_database_is_locked_are_not_to_blame(own_service: Service) -> None:
    long = own_service.create(STORY, on_restart="fail", max_output_tokens=400)["id"]
    eventually(lambda: state(own_service, long)[1] > 2, 60)
    helpers = eventually(lambda: victims.find(own_service, Victim.HELPER))
    for pid in helpers:
        os.kill(pid, signal.SIGSTOP)
    # So many that there is a bell for each worker, and the sweep has nothing to write.
    with ThreadPoolExecutor(6) as callers:
        others = [task["id"] for task in callers.map(lambda _: own_service.create(max_output_tokens=2), range(6))]
    with lock(own_service):
        for pid in helpers:
            os.kill(pid, signal.SIGCONT)
        began = time.monotonic()
        answer = own_service.request("GET", "/readyz").json()["checks"]
        assert not answer["database"]["ok"]
        assert answer["runner"]["ok"], "one fault is told once"
        eventually(lambda: time.monotonic() - began > 12, 20)
    assert {own_service.finished(task)["status"] for task in others} == {"completed"}
    assert own_service.finished(long)["status"] == "completed"
    assert "stalled" not in own_service.log.read_text()
    check_database(own_service)
