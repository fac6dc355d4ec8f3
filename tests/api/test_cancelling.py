"""POST /v1/tasks/{id}/cancel: from every state a task can be in."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from models_app.engines import wire
from tests.api.bodies import STORY, body
from tests.api.engine import computes, info
from tests.service import Service, eventually

# About 1,500 tokens: seconds of prefill, so that a cancel comes in the middle of it.
LONG = "The quick brown fox jumps over the lazy dog. " * 150


def cancel(http: httpx.Client, task_id: str) -> dict[str, Any]:
    answer = http.post(f"/v1/tasks/{task_id}/cancel")
    assert answer.status_code == 200, answer.text
    task: dict[str, Any] = answer.json()
    return task


def types(service: Service, task_id: str) -> list[str]:
    return [event["type"] for event in service.events(task_id)]


@pytest.fixture
def busy(service: Service, http: httpx.Client) -> Iterator[None]:
    """Every worker has a long task."""
    service.settle()
    tasks = [service.create(STORY, max_output_tokens=400)["id"] for _ in range(4)]
    eventually(lambda: all(service.task(task)["status"] == "running" for task in tasks), 60)
    yield
    for task in tasks:
        cancel(http, task)


def test_a_waiting_task_is_cancelled_at_once(service: Service, http: httpx.Client, busy: None) -> None:
    task_id = service.create(STORY)["id"]
    cancelled = cancel(http, task_id)
    assert (cancelled["status"], cancelled["attempt"], cancelled["position"]) == ("cancelled", 0, None)
    assert cancelled["started_at"] is None
    assert cancelled["finished_at"]
    assert cancelled["error"] is None
    assert types(service, task_id) == ["response.created", "response.queued", "response.cancelled"]


def test_a_running_task_is_cancelled_and_the_engine_stops(service: Service, http: httpx.Client) -> None:
    service.settle()
    task_id = service.create(STORY, max_output_tokens=1500)["id"]
    eventually(lambda: service.task(task_id)["usage"]["output_tokens"] > 2, 60)
    assert computes(service)
    cancelled = cancel(http, task_id)
    assert cancelled["status"] == "cancelled"
    eventually(lambda: not computes(service), 5)
    log = service.events(task_id)
    assert [event["type"] for event in log[-2:]] == ["response.cancelling", "response.cancelled"]
    assert log[-2]["response"]["status"] == "in_progress"
    assert log[-1]["response"]["status"] == "cancelled"
    (message,) = log[-1]["response"]["output"]
    assert message["status"] == "incomplete"
    assert message["content"][0]["text"] == "".join(event.get("delta", "") for event in log)
    assert cancelled["usage"]["output_tokens"] < 1500


def test_a_cancel_of_which_the_worker_is_not_told_is_seen_all_the_same(own_service: Service) -> None:
    task_id = own_service.create(STORY, max_output_tokens=1500)["id"]
    eventually(lambda: own_service.task(task_id)["usage"]["output_tokens"] > 2, 60)
    wake_ups = Path(wire.socket_address(own_service.data_dir / "run", "wake-tasks-00000000")).parent / "wake"
    told = list(wake_ups.glob("w*"))
    assert told
    for socket in told:
        socket.unlink()
    answer = own_service.request("POST", f"/v1/tasks/{task_id}/cancel")
    assert answer.json()["status"] == "cancelled"
    eventually(lambda: not computes(own_service), 5)


def test_a_long_prefill_is_broken_off(service: Service, http: httpx.Client) -> None:
    service.settle()
    task_id = service.create(LONG, max_output_tokens=50)["id"]
    assert service.task(task_id)["usage"]["input_tokens"] > 1200
    eventually(lambda: service.task(task_id)["status"] == "running" and computes(service), 60)
    generated = info(service)["tokens_generated"]
    began = time.monotonic()
    cancelled = cancel(http, task_id)
    assert cancelled["status"] == "cancelled"
    eventually(lambda: not computes(service), 5)
    assert time.monotonic() - began < 3
    assert info(service)["tokens_generated"] == generated
    assert cancelled["usage"]["output_tokens"] == 0
    assert "response.output_text.delta" not in types(service, task_id)
    # The engine is as good as before.
    assert service.finished(service.create("Hi", max_output_tokens=4)["id"])["output_text"]


def test_a_second_cancel_changes_nothing(service: Service, http: httpx.Client) -> None:
    task_id = service.create(STORY, max_output_tokens=300)["id"]
    eventually(lambda: service.task(task_id)["status"] == "running", 60)
    with ThreadPoolExecutor(8) as threads:
        answers = [future.result() for future in [threads.submit(cancel, http, task_id) for _ in range(8)]]
    assert {answer["status"] for answer in answers} == {"cancelled"}
    log = service.events(task_id)
    again = cancel(http, task_id)
    assert again == answers[0]
    assert service.events(task_id) == log
    assert [event["type"] for event in log].count("response.cancelled") == 1


def test_a_finished_task_stays_as_it_is(service: Service, http: httpx.Client) -> None:
    done = service.finished(service.create("Hi", max_output_tokens=3)["id"])
    log = service.events(done["id"])
    text = done.pop("output_text")
    assert cancel(http, done["id"]) == done
    assert service.events(done["id"]) == log
    assert service.task(done["id"])["output_text"] == text


def test_a_response_is_cancelled_as_its_task_is(service: Service, http: httpx.Client) -> None:
    response = http.post("/v1/responses", json=body(STORY, background=True, max_output_tokens=300)).json()
    task_id = response["lmsp"]["task_id"]
    eventually(lambda: service.task(task_id)["status"] == "running", 60)
    cancelled = http.post(f"/v1/responses/{response['id']}/cancel").json()
    assert (cancelled["id"], cancelled["status"]) == (response["id"], "cancelled")
    assert service.task(task_id)["status"] == "cancelled"


def test_whoever_waits_for_a_cancelled_response_is_told(service: Service, http: httpx.Client) -> None:
    request = body(STORY, max_output_tokens=1000, metadata={"who": "waits"})
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(http.post, "/v1/responses", json=request)
        find = "SELECT id FROM tasks WHERE status = 'running' AND json_extract(metadata, '$.who') = 'waits'"
        ((task_id,),) = eventually(lambda: service.sql(find), 60)
        cancel(http, task_id)
        answer = waiting.result()
    assert answer.status_code == 200
    assert answer.json()["status"] == "cancelled"


def test_a_cancel_needs_no_body_and_takes_any(service: Service, http: httpx.Client) -> None:
    done = service.finished(service.create("Hi", max_output_tokens=2)["id"])["id"]
    taken: list[dict[str, Any]] = [{}, {"json": {}}, {"content": b"\xff", "headers": {"Content-Type": "text/plain"}}]
    for options in taken:
        assert http.post(f"/v1/tasks/{done}/cancel", **options).status_code == 200
