"""R6 goes for what a dead service left: nothing that starts beside a living one touches a living task."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.service import REPOSITORY, Service, demo_model, eventually, free_port

_HELD = "SELECT status, attempt, owner FROM tasks WHERE id = ?"
_STATE_EVENTS = (
    "SELECT type FROM task_events WHERE task_id = ? AND type NOT LIKE 'response.output%'"
    " AND type NOT LIKE 'response.content%' ORDER BY sequence_number"
)


@contextmanager
def _beside(service: Service, *command: str, **variables: str) -> Iterator[None]:
    """Run a program on the service's data directory, for as long as the body takes."""
    environment = service.environment | variables
    with subprocess.Popen([sys.executable, *command], cwd=REPOSITORY, env=environment) as process:
        try:
            yield
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _second_serve(service: Service) -> None:
    command = [sys.executable, "manage.py", "serve"]
    environment = service.environment | {"LMSP_PORT": str(free_port())}
    refused = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, timeout=60, check=False)
    assert refused.returncode == 1


def _second_web_server(service: Service) -> None:
    port = free_port()
    with _beside(service, "-m", "daphne", "-p", str(port), "lmsp_site.asgi:application"):
        eventually(lambda: _listens(port), 60, "the second web server answers")


def _autoreload(service: Service) -> None:
    port = free_port()
    with _beside(service, "manage.py", "runserver", str(port)):
        eventually(lambda: _listens(port), 60, "Django's own server answers")


def _second_cluster(service: Service) -> None:
    owners = service.data_dir / "run" / "owners"
    before = set(owners.iterdir())
    with _beside(service, "manage.py", "run_workers", LMSP_MAX_RUNNING="1"):
        eventually(lambda: set(owners.iterdir()) - before, 60, "another worker lives")
        # What it does when it starts, and at its first look for work, it does now.
        done = service.finished(service.create(max_output_tokens=2)["id"])
        assert done["status"] == "completed"


def _management_commands(service: Service) -> None:
    service.manage("check_log")
    service.manage("purge_tasks")
    service.manage("recover_tasks", "--sweep")
    service.manage("create_client", "bystander")
    service.manage("add_model", str(demo_model()), "--id", "bystander")
    for command in (["migrate"], ["check"], ["showmigrations"]):
        subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=REPOSITORY,
            env=service.environment,
            capture_output=True,
            timeout=60,
            check=True,
        )


@pytest.mark.parametrize(
    "start",
    [_second_serve, _second_web_server, _autoreload, _second_cluster, _management_commands],
    ids=lambda function: function.__name__.strip("_").replace("_", " "),
)
def test_R6_a_living_task_is_never_touched(service: Service, start: Any) -> None:
    task = service.create("Write a long story about a lighthouse keeper.", on_restart="fail")["id"]
    eventually(lambda: service.task(task)["usage"]["output_tokens"] > 2, 60)
    held, events = service.sql(_HELD, task), service.sql(_STATE_EVENTS, task)
    assert held[0][:2] == ("running", 1)

    start(service)

    written = service.task(task)["usage"]["output_tokens"]
    if service.task(task)["finished_at"] is None:
        assert service.sql(_HELD, task) == held
        assert service.sql(_STATE_EVENTS, task) == events
        eventually(lambda: service.task(task)["usage"]["output_tokens"] > written, 60, "it goes on")
        service.request("POST", f"/v1/tasks/{task}/cancel")
    done = service.finished(task)
    # Stopped by this test, or at its own end; never by somebody who thought it left over.
    assert (done["error"], done["attempt"]) == (None, 1)
    service.check_log()
