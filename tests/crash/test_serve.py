"""`manage.py serve` as an operator meets it: refusals, restarts of its parts, and its end."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.service import REPOSITORY, Service, eventually


def run_serve(service: Service, cwd: Path = REPOSITORY, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "manage.py"), "serve"],
        cwd=cwd,
        env=service.environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_second_service_on_the_data_directory_is_refused(own_service: Service) -> None:
    before = own_service.processes()

    second = run_serve(own_service)

    assert own_service.process is not None
    assert second.returncode == 1
    assert second.stderr == f"A service runs on this data directory already: process {own_service.process.pid}.\n"
    # The last workers may start only when it already answers.
    assert set(before) <= set(own_service.processes())
    assert own_service.is_ready()


def test_a_port_in_use_is_one_line_and_nothing_is_touched(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    with socket.create_server(("127.0.0.1", service.port)):
        refused = run_serve(service)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Cannot listen on 127.0.0.1 port {service.port}: something listens there already")
    assert refused.stderr.count("\n") == 1
    assert service.sql("SELECT name FROM sqlite_master") == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_ends_every_process(own_service: Service, signum: signal.Signals) -> None:
    task = own_service.create("Write a long story about a lighthouse keeper.", max_output_tokens=900)
    eventually(lambda: own_service.task(task["id"])["status"] == "running")
    assert own_service.process is not None

    own_service.process.send_signal(signum)

    assert own_service.process.wait(20) == 0
    assert own_service.processes() == []


def test_it_says_once_where_it_serves(own_service: Service) -> None:
    def said() -> list[str]:
        return [line for line in own_service.log.read_text().splitlines() if line.startswith("The service is ready")]

    assert eventually(said) == [
        f"The service is ready at {own_service.url} (admin: {own_service.url}/admin/). Ctrl-C stops it."
    ]


@pytest.mark.parametrize("victim", ["daphne", "run_workers", "engines.host"])
def test_a_part_that_is_killed_comes_back_and_tasks_go_on(own_service: Service, victim: str) -> None:
    own_service.kill_child(victim)

    # The listening socket outlives the web server: not even this request fails.
    task = own_service.create(max_output_tokens=8)

    assert own_service.finished(task["id"])["status"] == "completed"
    own_service.check_log()


def test_a_worker_killed_while_idle_does_not_stop_the_queue(own_service: Service) -> None:
    own_service.finished(own_service.create(max_output_tokens=2)["id"])
    own_service.settle()
    for pid in _workers_of(own_service):
        os.kill(pid, signal.SIGKILL)

    task = own_service.create(max_output_tokens=8)

    assert own_service.finished(task["id"])["status"] == "completed"


def test_it_can_be_started_from_anywhere_with_a_relative_data_directory(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "manage.py"), "serve"],
            cwd=tmp_path,
            env=service.environment | {"LMSP_DATA_DIR": "data", "LMSP_LOG_FORMAT": "json"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("The service is ready")
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        process.terminate()
    assert process.returncode == 0
    assert (tmp_path / "data" / "db.sqlite3").exists()
    for line in (tmp_path / "log").read_text().splitlines():
        json.loads(line)


def test_it_serves_on_ipv6(tmp_path: Path) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").read_text():
        pytest.skip("this machine has no IPv6")
    service = Service(tmp_path / "data", LMSP_HOST="::1")
    service.start(ready=False)
    try:
        url = f"http://[::1]:{service.port}"
        eventually(lambda: url in service.log.read_text(), 60)
        assert httpx.get(f"{url}/healthz").status_code == 200
    finally:
        service.stop()


def _workers_of(service: Service) -> list[int]:
    """Return the processes that the cluster forked: all but the oldest of those with its command line."""
    cluster = [pid for pid in service.processes() if b"run_workers" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return sorted(cluster)[1:]
