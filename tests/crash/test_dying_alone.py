"""A worker or an engine dies alone: it is noticed, its tasks' policies are applied, and the service goes on."""

import json
import os
import signal
import threading
import time
from typing import Any

import pytest

from tests.api.bodies import body
from tests.crash import victims
from tests.crash.readers import WAYS, Reader
from tests.crash.victims import Victim
from tests.service import Service, eventually

_BODY = {"on_restart": "resume", "max_output_tokens": 100}
_LONG = {"max_output_tokens": 200}


def _mid_text(service: Service, task: str) -> None:
    eventually(lambda: service.task(task)["usage"]["output_tokens"] > 5, 60)


def _kill_the_next_engine(service: Service, but: list[int]) -> list[int]:
    """Kill an engine process that is not one of `but`, as soon as there is one."""
    engines = eventually(lambda: [pid for pid in victims.find(service, Victim.ENGINE) if pid not in but], 60)
    victims.kill(engines)
    return engines


def _idle(service: Service, number: int) -> list[int]:
    """Return the idle workers, if there are so many."""
    found = victims.find(service, Victim.IDLE_WORKER)
    return found if len(found) == number else []


@pytest.mark.parametrize(
    ("policy", "status", "code"),
    [("fail", "failed", "engine_died"), ("retry", "completed", ""), ("resume", "completed", "")],
)
def test_a_task_whose_engine_dies_while_it_loads_goes_by_its_policy(
    own_service: Service, policy: str, status: str, code: str
) -> None:
    task = own_service.create(on_restart=policy, max_output_tokens=6)["id"]
    _kill_the_next_engine(own_service, [])
    done = own_service.finished(task)
    assert (done["status"], (done["error"] or {}).get("code", "")) == (status, code)
    own_service.check_log()


def test_a_task_to_be_resumed_outlives_an_engine_and_the_next_four_while_they_load(own_service: Service) -> None:
    twin = own_service.finished(own_service.create("Write a long story.", **_BODY)["id"])
    task = own_service.create("Write a long story.", **_BODY)["id"]
    _mid_text(own_service, task)
    killed: list[int] = []
    for _ in range(5):
        killed += _kill_the_next_engine(own_service, killed)
    done = own_service.finished(task)
    assert (done["status"], done["output_text"], done["usage"]) == ("completed", twin["output_text"], twin["usage"])
    assert all(event["exact"] for event in own_service.events(task) if event.get("resumed"))
    own_service.check_log()


def test_a_worker_that_dies_alone_is_noticed_within_five_seconds(own_service: Service) -> None:
    task = own_service.create("Write a long story.", on_restart="fail")["id"]
    _mid_text(own_service, task)
    victims.kill(victims.find(own_service, Victim.BUSY_WORKER))
    killed = time.monotonic()
    assert own_service.finished(task)["error"]["code"] == "worker_died"
    assert time.monotonic() - killed < 5
    own_service.check_log()


@pytest.mark.parametrize("victim", [Victim.BUSY_WORKER, Victim.ENGINE])
def test_readers_who_stay_see_one_seamless_stream(own_service: Service, victim: Victim) -> None:
    twin = own_service.finished(own_service.create("Write a long story.", **_BODY)["id"])
    task = own_service.create("Write a long story.", **_BODY)["id"]
    abort = threading.Event()
    with own_service.http() as http:
        readers = [Reader(own_service, http, task, way, abort) for way in WAYS]
        for reader in readers:
            reader.start()
        _mid_text(own_service, task)
        victims.kill(victims.find(own_service, victim))
        assert own_service.finished(task)["output_text"] == twin["output_text"]
        for reader in readers:
            reader.join(30)
    log = own_service.events(task)
    assert sum(event.get("resumed", False) for event in log) >= 1
    for reader in readers:
        assert (reader.fault, reader.interruptions, reader.ended) == (None, 0, True)
        assert reader.received == reader.expected(log)
    own_service.check_log()


def test_idle_workers_that_die_take_nothing_along(own_service: Service) -> None:
    """One of them waits for a job and holds the lock of all who want one."""
    task = own_service.create("Write a long story.", on_restart="fail")["id"]
    _mid_text(own_service, task)
    idle = eventually(lambda: _idle(own_service, 3))
    busy = victims.find(own_service, Victim.BUSY_WORKER)
    victims.kill(idle)
    others = [own_service.create(max_output_tokens=2)["id"] for _ in range(3)]
    for other in others:
        assert own_service.finished(other, 30)["attempt"] == 1
    assert victims.find(own_service, Victim.BUSY_WORKER) == busy
    assert own_service.task(task)["status"] == "running"
    own_service.request("POST", f"/v1/tasks/{task}/cancel")
    own_service.settle()
    # And so soon before a stop that nobody has replaced them.
    victims.kill(eventually(lambda: _idle(own_service, 4)))
    began = time.monotonic()
    own_service.stop()
    assert time.monotonic() - began < 8, "the grace of 10 s is for those who need it"
    assert "stalled" not in own_service.log.read_text()


def test_helpers_that_die_while_they_wait_are_replaced(own_service: Service) -> None:
    """The one that takes the results waits with a lock in its hand as well."""
    own_service.finished(own_service.create(max_output_tokens=2)["id"])
    # The result of its job has been taken: from here on they wait.
    eventually(lambda: own_service.sql("SELECT count(*) FROM django_q_task") != [(0,)])
    killed = eventually(lambda: victims.find(own_service, Victim.HELPER))
    victims.kill(killed)
    eventually(lambda: set(victims.find(own_service, Victim.HELPER)) - set(killed))
    results = own_service.sql("SELECT count(*) FROM django_q_task")
    own_service.finished(own_service.create(max_output_tokens=2)["id"])
    eventually(lambda: own_service.sql("SELECT count(*) FROM django_q_task") > results)
    assert "stalled" not in own_service.log.read_text()


def test_a_cluster_that_takes_no_jobs_is_noticed(own_service: Service) -> None:
    own_service.finished(own_service.create(max_output_tokens=2)["id"])
    # Until its job is over too, the worker would take the next task without being told.
    eventually(lambda: own_service.sql("SELECT count(*) FROM django_q_task") != [(0,)])
    for pid in eventually(lambda: victims.find(own_service, Victim.HELPER)):
        os.kill(pid, signal.SIGSTOP)
    waiting = own_service.create(max_output_tokens=2)["id"]
    assert "not run" in eventually(lambda: _runner_fault(own_service), 20, "readiness tells that nobody takes it")
    assert own_service.finished(waiting)["status"] == "completed"
    assert "stalled and will be restarted" in own_service.log.read_text()
    eventually(own_service.is_ready)


def test_readiness_tells_that_there_are_no_workers(own_service: Service) -> None:
    victims.kill(victims.find(own_service, Victim.CLUSTER))
    assert "there is no worker" in eventually(lambda: _runner_fault(own_service), 20)
    eventually(own_service.is_ready, 60)
    assert own_service.finished(own_service.create(max_output_tokens=2)["id"])["status"] == "completed"


def _runner_fault(service: Service) -> str:
    """Return what readiness says of the runner; nothing while it is well."""
    answer = service.request("GET", "/readyz")
    runner: dict[str, Any] = answer.json()["checks"]["runner"]
    assert (answer.status_code == 200) is runner["ok"]
    return str(runner["detail"] or "")


def test_an_answer_that_follows_a_schema_goes_on_through_it_when_its_engine_dies(own_service: Service) -> None:
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 100, "maximum": 999}}
    form = {"type": "json_schema", "name": "numbers", "schema": numbers | {"minItems": 15, "maxItems": 15}}
    asked = {"text": {"format": form}, "include": ["message.output_text.logprobs"], "temperature": 1.5, "seed": 7}

    def create() -> str:
        created = own_service.request("POST", "/v1/tasks", json=body("Count.", on_restart="resume") | _LONG | asked)
        task: str = created.json()["id"]
        return task

    own_service.finished(twin := create())
    _mid_text(own_service, task := create())
    victims.kill(victims.find(own_service, Victim.ENGINE))
    own_service.finished(task)
    events = own_service.events(task)
    assert [event["exact"] for event in events if event.get("resumed")] == [True]
    part, expected = (own_service.events(each)[-1]["response"]["output"][0]["content"][0] for each in (task, twin))
    assert part == expected
    assert len(json.loads(part["text"])) == 15
    # None is lost or told twice, whoever has read along.
    assert [one for event in events if event["type"].endswith("text.delta") for one in event["logprobs"]] == (
        part["logprobs"]
    )
    assert b"".join(bytes(one["bytes"]) for one in part["logprobs"]).decode() == part["text"]
    own_service.check_log()
