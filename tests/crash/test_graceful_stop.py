"""SIGTERM with unfinished tasks of each policy: what can end in the grace does, and the rest is left as it is."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.api.bodies import CHAT, body, chat, error
from tests.crash.catalogue import REQUESTS
from tests.crash.readers import WAYS, Reader
from tests.service import Service, eventually

_STORY = str(REQUESTS["greedy long"]["input"])


def _mid_text(service: Service, *task_ids: str) -> None:
    eventually(lambda: all(service.task(task_id)["usage"]["output_tokens"] > 1 for task_id in task_ids), 60)


def _ask_to_stop(service: Service) -> None:
    """Send SIGTERM and wait until the service says that it is stopping."""
    assert service.process is not None
    service.process.send_signal(signal.SIGTERM)
    eventually(lambda: service.request("GET", "/readyz").status_code == 503)
    readiness = service.request("GET", "/readyz")
    assert "stopping" in readiness.json()["checks"]["runner"]["detail"]
    assert int(readiness.headers["retry-after"]) >= 1


def test_tasks_to_be_resumed_stop_at_once_and_stay_running(own_service: Service) -> None:
    twin = own_service.finished(own_service.create(_STORY, max_output_tokens=160)["id"])
    task = own_service.create(_STORY, on_restart="resume", max_output_tokens=160)["id"]
    _mid_text(own_service, task)
    began = time.monotonic()
    own_service.stop()
    assert time.monotonic() - began < 8, "the grace of 10 s is for those who need it"
    assert own_service.processes() == []
    assert own_service.sql("SELECT status, attempt FROM tasks WHERE id = ?", task) == [("running", 1)]
    own_service.start()
    done = own_service.finished(task)
    assert (done["status"], done["output_text"], done["usage"]) == ("completed", twin["output_text"], twin["usage"])
    (resumed,) = [event for event in own_service.events(task) if event.get("resumed")]
    assert resumed["exact"]
    own_service.check_log()


def test_the_others_have_the_grace_and_are_left_to_the_next_start_after_it(tmp_path: Path) -> None:
    with Service(tmp_path / "data", LMSP_SHUTDOWN_GRACE="8") as service:
        long = {policy: service.create(_STORY, on_restart=policy)["id"] for policy in ("fail", "retry")}
        _mid_text(service, *long.values())
        short = service.create(_STORY, on_restart="fail", max_output_tokens=20)["id"]
        _mid_text(service, short)
        began = time.monotonic()
        service.stop()
        assert 7 < time.monotonic() - began < 14
        assert service.processes() == []
        status = "SELECT status, error_code, attempt FROM tasks WHERE id = ?"
        assert service.sql(status, short) == [("completed", "", 1)]
        # Not even by the end of their engine: the next start says that it was a restart.
        for task in long.values():
            assert service.sql(status, task) == [("running", "", 1)]
        service.start()
        assert service.finished(long["fail"])["error"]["code"] == "server_restarted"
        eventually(lambda: service.task(long["retry"])["attempt"] == 2, 60)
        assert service.request("POST", f"/v1/tasks/{long['retry']}/cancel").json()["status"] == "cancelled"
        service.check_log()


def test_until_the_end_only_new_work_is_refused(tmp_path: Path) -> None:
    with Service(tmp_path / "data", LMSP_SHUTDOWN_GRACE="120") as service, service.http() as http:
        earlier = http.post("/v1/tasks", json=body(), headers={"Idempotency-Key": "earlier"})
        lasting = service.create(_STORY, on_restart="fail")["id"]
        _mid_text(service, lasting)
        _ask_to_stop(service)
        before = service.sql("SELECT count(*) FROM tasks")

        for path, request in [
            ("/v1/tasks", body()),
            ("/v1/responses", body()),
            ("/v1/responses", body(stream=True)),
            ("/v1/responses", body(background=True)),
            (CHAT, chat()),
            (CHAT, chat(stream=True)),
        ]:
            answer = http.post(path, json=request, headers={"Idempotency-Key": "later"})
            found = error(answer, 503)
            assert (found["type"], found["code"]) == ("server_error", "stopping")
            assert int(answer.headers["retry-after"]) >= 1

        replayed = http.post("/v1/tasks", json=body(), headers={"Idempotency-Key": "earlier"})
        assert (replayed.status_code, replayed.json()) == (202, earlier.json())
        assert replayed.headers["idempotent-replayed"] == "true"
        assert service.task(lasting)["status"] == "running"
        assert len(service.events(lasting)) > 2
        assert http.get("/v1/tasks").status_code == 200
        assert http.post(f"/v1/tasks/{lasting}/cancel").status_code == 200

        assert service.process is not None
        assert service.process.wait(60) == 0
        assert service.processes() == []
        assert service.sql("SELECT count(*) FROM tasks") == before
        assert service.sql("SELECT status FROM tasks WHERE id = ?", lasting) == [("cancelled",)]
        # The refusal ends with the service that announced it.
        service.start()
        assert http.post("/v1/tasks", json=body(), headers={"Idempotency-Key": "later"}).status_code == 202


def test_who_waits_for_a_task_that_finishes_in_the_grace_is_told(tmp_path: Path) -> None:
    with Service(tmp_path / "data", LMSP_SHUTDOWN_GRACE="120") as service, service.http() as http:
        with ThreadPoolExecutor() as threads:
            answered = threads.submit(http.post, "/v1/responses", json=body(_STORY, max_output_tokens=80))
            task = service.create(_STORY, on_restart="fail", max_output_tokens=120)["id"]
            abort = threading.Event()
            readers = [Reader(service, http, task, way, abort) for way in WAYS if way != "pages"]
            for reader in readers:
                reader.start()
            _mid_text(service, task, *[task for (task,) in service.sql("SELECT id FROM tasks")])
            _ask_to_stop(service)
            assert service.process is not None
            assert service.process.wait(60) == 0
            response = answered.result(0)
            for reader in readers:
                reader.join(5)
        assert response.status_code == 200
        assert response.json()["usage"]["output_tokens"] == 80
        assert service.sql("SELECT status FROM tasks WHERE id = ?", task) == [("completed",)]
        service.start()
        for reader in readers:
            assert (reader.fault, reader.interruptions, reader.ended) == (None, 0, True)
            assert reader.received == reader.expected(service.events(task))


def test_who_waits_for_a_task_that_does_not_is_cut_off_at_the_end(tmp_path: Path) -> None:
    with Service(tmp_path / "data", LMSP_SHUTDOWN_GRACE="3") as service, service.http() as http:
        # Its connection is open and has nothing to do when the web server stops.
        with service.http() as idle, ThreadPoolExecutor() as threads:
            assert idle.get("/healthz").status_code == 200
            answered = threads.submit(http.post, "/v1/responses", json=body(_STORY, max_output_tokens=2000))
            task = service.create(_STORY, on_restart="resume", max_output_tokens=160)["id"]
            abort = threading.Event()
            reader = Reader(service, http, task, "sse", abort)
            reader.start()
            _mid_text(service, *[task for (task,) in service.sql("SELECT id FROM tasks")])
            service.stop()
            with pytest.raises(httpx.TransportError):
                answered.result(5)
        service.start()
        # Not by its caller, who did not hang up.
        statuses = service.sql("SELECT status, error_code FROM tasks WHERE id != ?", task)
        assert statuses == [("failed", "server_restarted")]
        assert service.finished(task)["status"] == "completed"
        reader.join(30)
        assert (reader.fault, reader.interruptions > 0, reader.ended) == (None, True, True)
        assert reader.received == reader.expected(service.events(task))
        service.check_log()
