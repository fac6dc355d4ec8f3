"""GET /v1/tasks/{id}: what a task says about itself while it waits, runs and is done."""

import httpx
import pytest

from tests.api.bodies import STORY, body, error
from tests.service import Service, eventually


def test_a_finished_task_has_its_text_its_usage_and_its_times(service: Service) -> None:
    task = service.finished(service.create("Hi", max_output_tokens=64)["id"])
    assert (task["status"], task["attempt"], task["position"], task["error"]) == ("completed", 1, None, None)
    assert task["output_text"]
    assert task["incomplete_details"] is None
    usage = task["usage"]
    assert 0 < usage["output_tokens"] < 64
    assert usage["input_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert task["created_at"] <= task["started_at"] <= task["finished_at"]


def test_an_output_cut_by_its_limit_says_so(service: Service) -> None:
    task = service.finished(service.create(STORY, max_output_tokens=3)["id"])
    assert task["status"] == "completed"
    assert task["incomplete_details"] == {"reason": "max_output_tokens"}
    assert task["usage"]["output_tokens"] == 3


def test_a_running_task_shows_the_text_that_it_has(service: Service) -> None:
    task_id = service.create(STORY, max_output_tokens=300)["id"]
    running = eventually(lambda: (task := service.task(task_id))["output_text"] and task, 60)
    assert running["status"] == "running"
    assert running["usage"]["output_tokens"] > 0
    assert running["started_at"]
    assert running["finished_at"] is None
    service.request("POST", f"/v1/tasks/{task_id}/cancel")
    assert service.finished(task_id)["output_text"].startswith(running["output_text"])


def test_a_waiting_task_knows_its_place(service: Service) -> None:
    service.settle()
    tasks = [service.create(STORY, max_output_tokens=300)["id"] for _ in range(4)]
    eventually(lambda: all(service.task(task)["status"] != "queued" for task in tasks), 60)
    later = service.create("Hi", priority="batch", max_output_tokens=4)["id"]
    sooner = service.create("Hi", priority="interactive", max_output_tokens=4)["id"]
    middle = service.create("Hi", max_output_tokens=4)["id"]
    assert [service.task(task)["position"] for task in (sooner, middle, later)] == [1, 2, 3]
    assert service.task(tasks[0])["position"] is None
    for task in tasks:
        service.request("POST", f"/v1/tasks/{task}/cancel")
    started = [service.finished(task)["started_at"] for task in (sooner, middle, later)]
    assert started == sorted(started)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tasks/{}"),
        ("GET", "/v1/tasks/{}/events"),
        ("POST", "/v1/tasks/{}/cancel"),
    ],
)
def test_a_foreign_task_and_one_that_never_was_are_the_same(
    service: Service, stranger: httpx.Client, method: str, path: str
) -> None:
    theirs = service.request("POST", "/v1/tasks", json=body()).json()["id"]
    never = f"task_{'0' * 26}"
    foreign = stranger.request(method, path.format(theirs))
    unknown = stranger.request(method, path.format(never))
    assert error(foreign, 404)["code"] == "task_not_found"
    assert foreign.text.replace(theirs, never) == unknown.text
    assert service.finished(theirs)["status"] == "completed"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_response_and_one_that_never_was_are_the_same(
    service: Service, stranger: httpx.Client, method: str
) -> None:
    theirs = service.request("POST", "/v1/tasks", json=body()).json()["response_id"]
    never = f"resp_{'0' * 26}"
    tail = "/cancel" if method == "POST" else ""
    foreign = stranger.request(method, f"/v1/responses/{theirs}{tail}")
    unknown = stranger.request(method, f"/v1/responses/{never}{tail}")
    assert error(foreign, 404)["code"] == "response_not_found"
    assert foreign.text.replace(theirs, never) == unknown.text


@pytest.mark.parametrize("odd", ["%00", "%ff", "%F0%9F%A6%99", "a b", "'", "x" * 3000, "%2e%2e"])
def test_an_odd_id_is_an_unknown_one(service: Service, odd: str) -> None:
    assert error(service.request("GET", f"/v1/tasks/{odd}"), 404)["code"] == "task_not_found"
    assert error(service.request("GET", f"/v1/responses/{odd}"), 404)["code"] == "response_not_found"
