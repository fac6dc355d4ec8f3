"""`manage.py recover_tasks`, for those who start the processes by hand."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_commands import answer, refusal, run
from tests.service import REPOSITORY, Service, eventually

# As a kill leaves them: one of each policy, none of which anybody holds.
_LEFT_OVER = ("fail", "retry", "resume")


@pytest.fixture
def left_over(tmp_path: Path) -> Service:
    """A data directory with a running task of each policy, and no process."""
    with Service(tmp_path / "data") as service:
        tasks = [service.create("Write a long story.", on_restart=policy)["id"] for policy in _LEFT_OVER]
        eventually(lambda: all(service.task(task)["usage"]["output_tokens"] > 2 for task in tasks), 60)
        service.kill()
    return service


def _statuses(service: Service) -> dict[str, Any]:
    return dict(service.sql("SELECT on_restart, status FROM tasks"))


def _recover(service: Service, *options: str) -> "subprocess.CompletedProcess[str]":
    return run(service.data_dir, "recover_tasks", "--json", *options)


@contextmanager
def _running_workers(service: Service) -> Iterator[None]:
    """Idle workers without a `serve`."""
    command = [sys.executable, "manage.py", "run_workers"]
    with subprocess.Popen(command, cwd=REPOSITORY, env=service.environment | {"LMSP_MAX_RUNNING": "1"}) as workers:
        owners = service.data_dir / "run" / "owners"
        try:
            eventually(lambda: owners.is_dir() and any(map(_is_held, owners.iterdir())), 60, "a worker lives")
            yield
        finally:
            workers.terminate()


def _is_held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_on_an_empty_data_directory_there_is_nothing_to_recover(tmp_path: Path) -> None:
    assert answer(run(tmp_path, "recover_tasks", "--json")) == {"tasks": 0}
    assert answer(run(tmp_path, "recover_tasks", "--sweep", "--json")) == {"tasks": 0}


def test_each_task_goes_where_its_policy_says(left_over: Service) -> None:
    assert answer(_recover(left_over)) == {"tasks": 3, "failed": 1, "queued": 1, "running": 1}
    assert _statuses(left_over) == {"fail": "failed", "retry": "queued", "resume": "running"}
    assert left_over.sql("SELECT count(*) FROM tasks WHERE owner IS NOT NULL") == [(0,)]
    left_over.check_log()
    # A second one finds what the first has made: nothing that waits is treated twice.
    assert answer(_recover(left_over)) == {"tasks": 2, "queued": 1, "running": 1}
    left_over.check_log()


def test_it_is_refused_beside_a_service(service: Service) -> None:
    assert "runs on this data directory already" in refusal(_recover(service))
    assert answer(_recover(service, "--sweep")) == {"tasks": 0}


def test_it_is_refused_beside_a_worker_even_an_idle_one(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    service.manage("check_log")
    with _running_workers(service):
        assert "1 workers run on this data directory" in refusal(_recover(service))
    assert answer(_recover(service)) == {"tasks": 0}


def test_a_sweep_recovers_only_what_a_dead_worker_held(left_over: Service) -> None:
    left_over.sql("UPDATE tasks SET owner = NULL WHERE on_restart = 'fail'")
    assert answer(_recover(left_over, "--sweep")) == {"tasks": 2}
    assert _statuses(left_over) == {"fail": "running", "retry": "queued", "resume": "running"}
    assert left_over.sql("SELECT error_code FROM tasks WHERE on_restart = 'fail'") == [("",)]
