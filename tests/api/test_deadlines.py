"""`expires_at`: a deadline after which an unfinished task fails, whatever it was at."""

import time

from models_app.engines.client import HostClient, engine_info
from tests.service import MODEL, Service, eventually

_STORY = "Write a long story about a lighthouse keeper."


def _busy_slots(service: Service) -> int:
    models = HostClient(service.data_dir / "run").list()
    address = HostClient(service.data_dir / "run").find(models[0]["key"])
    assert address is not None
    return int(engine_info(address)["busy_slots"])


def test_a_running_task_fails_at_its_deadline_and_the_engine_stops(service: Service) -> None:
    deadline = int(time.time()) + 3600
    task = service.create(_STORY, expires_at=deadline)
    assert task["expires_at"] == deadline
    eventually(lambda: service.task(task["id"])["usage"]["output_tokens"] > 0, 60)
    # However slow this machine is, it is now that it comes.
    service.sql("UPDATE tasks SET expires_at = datetime('now') WHERE id = ?", task["id"])
    done = service.finished(task["id"], 20)
    assert (done["status"], done["error"]["code"]) == ("failed", "expired")
    last = service.events(task["id"])[-1]
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "expired")
    # What was said by then is kept.
    assert last["response"]["output"][0]["status"] == "incomplete"
    eventually(lambda: _busy_slots(service) == 0, 10, "nothing computes for it any more")
    service.check_log()


def test_a_task_that_waits_for_its_turn_expires_too(service: Service) -> None:
    running = [service.create(_STORY)["id"] for _ in range(4)]
    eventually(lambda: all(service.task(task)["status"] == "running" for task in running), 60)
    task = service.create("Say hello.", expires_at=int(time.time()) + 2)
    done = service.finished(task["id"], 20)
    assert (done["status"], done["error"]["code"], done["attempt"]) == ("failed", "expired", 0)
    for other in running:
        service.request("POST", f"/v1/tasks/{other}/cancel")
    assert [service.finished(other)["status"] for other in running] == ["cancelled"] * 4


def test_a_task_in_time_is_not_touched_by_its_deadline(service: Service) -> None:
    task = service.create("Say hello.", expires_at=int(time.time()) + 3600, max_output_tokens=5)
    assert service.finished(task["id"])["status"] == "completed"


def test_a_retried_request_finds_the_task_of_the_first_after_its_deadline(service: Service) -> None:
    deadline = int(time.time()) + 2
    body = {"model": MODEL, "input": "Hi", "expires_at": deadline, "max_output_tokens": 3}
    headers = {"Idempotency-Key": f"deadline-{time.time_ns()}"}
    first = service.request("POST", "/v1/tasks", json=body, headers=headers)
    service.finished(first.json()["id"])
    eventually(lambda: time.time() > deadline)
    again = service.request("POST", "/v1/tasks", json=body, headers=headers)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert again.headers["Idempotent-Replayed"] == "true"
