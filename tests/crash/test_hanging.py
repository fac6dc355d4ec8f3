"""A part of the service hangs: it lives, holds what it has, and does nothing. It is noticed and replaced."""

import os
import signal
import time

import httpx
import pytest

from tests.crash import victims
from tests.crash.victims import Victim
from tests.service import Service, eventually

_BODY = {"on_restart": "resume", "max_output_tokens": 100}
_STORY = "Write a long story."


def _stop_one(service: Service, victim: Victim) -> int:
    """Stop a process as SIGSTOP does: none of its threads runs any more, and its locks and sockets stay."""
    pid = eventually(lambda: victims.find(service, victim), 30, f"there is a {victim}")[0]
    os.kill(pid, signal.SIGSTOP)
    return pid


def _mid_text(service: Service, task: str) -> None:
    eventually(lambda: service.task(task)["usage"]["output_tokens"] > 5, 60)


@pytest.mark.parametrize(
    ("victim", "within", "log"),
    [
        (Victim.ENGINE, 30, "engine hangs and is killed"),
        (Victim.BUSY_WORKER, 75, "worker hangs and is killed"),
    ],
)
def test_a_task_goes_on_when_what_runs_it_hangs(own_service: Service, victim: Victim, within: float, log: str) -> None:
    twin = own_service.finished(own_service.create(_STORY, **_BODY)["id"])
    task = own_service.create(_STORY, **_BODY)["id"]
    _mid_text(own_service, task)
    stopped = _stop_one(own_service, victim)
    began = time.monotonic()
    eventually(lambda: log in own_service.log.read_text(), within, "it is noticed")
    done = own_service.finished(task)
    assert (done["status"], done["output_text"], done["usage"]) == ("completed", twin["output_text"], twin["usage"])
    assert time.monotonic() - began < within + 60
    assert stopped not in own_service.processes()
    own_service.check_log()


def test_an_engine_that_hangs_fails_a_task_that_is_not_to_be_run_again(own_service: Service) -> None:
    task = own_service.create(_STORY, on_restart="fail")["id"]
    _mid_text(own_service, task)
    _stop_one(own_service, Victim.ENGINE)
    assert own_service.finished(task)["error"]["code"] == "engine_died"
    # The service goes on, with a new engine.
    assert own_service.finished(own_service.create(max_output_tokens=2)["id"])["status"] == "completed"


def test_an_engine_host_that_hangs_is_replaced(own_service: Service) -> None:
    stopped = _stop_one(own_service, Victim.HOST)
    answer = httpx.get(f"{own_service.url}/readyz", timeout=20, verify=False)
    assert (answer.status_code, answer.json()["checks"]["runner"]["ok"]) == (503, False)
    eventually(lambda: stopped not in own_service.processes(), 40, "it is replaced")
    eventually(own_service.is_ready, 30)
    assert own_service.finished(own_service.create(max_output_tokens=2)["id"])["status"] == "completed"


def test_a_web_server_that_hangs_is_replaced_and_work_goes_on_meanwhile(own_service: Service) -> None:
    task = own_service.create(_STORY, **_BODY)["id"]
    _mid_text(own_service, task)
    stopped = _stop_one(own_service, Victim.WEB)
    status = "SELECT status FROM tasks WHERE id = ?"
    eventually(lambda: own_service.sql(status, task) == [("completed",)], 60, "nobody needs the web server to work")
    eventually(lambda: stopped not in own_service.processes(), 60, "it is replaced")
    eventually(own_service.is_ready, 30)
    assert own_service.task(task)["status"] == "completed"
