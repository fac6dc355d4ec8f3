"""Whether the workers take no jobs, at one look: what readiness tells while the supervisor still waits."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Timer

import pytest
import time_machine
from django.conf import settings
from django.db import connection
from django.utils import timezone

from clients_app.models import Client
from tasks_app import stalling
from tasks_app.models import Task
from tests.store.tasks import new_task, running


@pytest.fixture
def beat_file() -> Iterator[Path]:
    path: Path = settings.LMSP.run_dir / "workers.beat"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


def _wait(task: Task, seconds: float) -> None:
    """Let a task have waited for so long."""
    Task.objects.filter(pk=task.pk).update(created_at=timezone.now() - timedelta(seconds=seconds))


def _last_beat(path: Path, seconds: float) -> None:
    path.touch()
    moment = time.monotonic_ns() - int(seconds * 1e9)
    os.utime(path, ns=(moment, moment))


def test_work_that_is_left_lying_is_noticed(client: Client, beat_file: Path) -> None:
    _wait(new_task(client), 10)
    assert stalling.takes_no_jobs(), "no worker has ever shown itself"
    _last_beat(beat_file, 10)
    assert stalling.takes_no_jobs()
    for moment in ("1990-01-01", "2090-01-01"):
        with time_machine.travel(moment):
            stalling.beat()
            assert not stalling.takes_no_jobs(), "beats are not by the time of day"


def test_an_idle_service_is_no_stalled_one(client: Client, beat_file: Path) -> None:
    assert not stalling.takes_no_jobs()
    _last_beat(beat_file, 10)
    assert not stalling.takes_no_jobs()
    _wait(new_task(client), 1)
    assert not stalling.takes_no_jobs(), "what came a moment ago may still be taken"


def test_workers_that_are_all_busy_take_nothing_and_that_is_well(client: Client, beat_file: Path) -> None:
    _wait(new_task(client), 10)
    _last_beat(beat_file, 10)
    held = [running(client)[0] for _ in range(settings.LMSP.max_running)]
    assert not stalling.takes_no_jobs()
    Task.objects.filter(pk=held[0].pk).update(owner=None)
    assert stalling.takes_no_jobs()


def test_one_who_is_about_to_look_for_work_is_waited_for(client: Client, beat_file: Path) -> None:
    _wait(new_task(client), 10)
    _last_beat(beat_file, 10)
    # In the middle of the moment that it is given.
    worker = Timer(0.3, stalling.beat)
    worker.start()
    assert not stalling.takes_no_jobs()
    worker.join()


def test_a_database_that_is_locked_is_not_the_workers_fault(
    client: Client, beat_file: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalling, "_STALLED_AFTER_SECONDS", 0.0)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 10")
    new_task(client)
    watch = stalling.StallWatch()
    assert not watch.stalled(), "the first look only begins to count"
    with closing(sqlite3.connect(database, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert not watch.stalled()
    assert not watch.stalled(), "it begins anew"
    # The sweep before it may meet the lock first.
    watch.begin_anew()
    assert not watch.stalled(), "it begins anew"
    assert watch.stalled()
