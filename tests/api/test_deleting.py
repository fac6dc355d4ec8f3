"""DELETE of a task or of its response: both go, once they have finished."""

import httpx
import pytest

from tests.api.bodies import STORY, body, error, rows
from tests.api.conversations import say
from tests.service import Service

DELETED = ("/v1/tasks/{task_id}", "/v1/responses/{id}")


@pytest.mark.parametrize("path", DELETED)
def test_both_are_gone_with_all_that_belongs_to_them(service: Service, http: httpx.Client, path: str) -> None:
    service.settle()
    before = rows(service)
    response = say(http)
    task_id = response["lmsp"]["task_id"]
    answer = http.delete(path.format(task_id=task_id, **response))
    if "tasks" in path:
        assert (answer.status_code, answer.content) == (204, b"")
    else:
        assert answer.status_code == 200
        assert answer.json() == {"id": response["id"], "object": "response", "deleted": True}
    service.settle()
    assert rows(service) == before
    for gone in (path, *DELETED, "/v1/responses/{id}/input_items", "/v1/tasks/{task_id}/events"):
        assert error(http.get(gone.format(task_id=task_id, **response)), 404)
    assert error(http.delete(path.format(task_id=task_id, **response)), 404)


def test_what_has_not_finished_is_kept(service: Service, http: httpx.Client) -> None:
    task = http.post("/v1/tasks", json=body(STORY, max_output_tokens=1000)).json()
    for path in DELETED:
        answer = http.delete(path.format(task_id=task["id"], id=task["response_id"]))
        assert error(answer, 409)["code"] == "task_not_finished"
        # The official clients would send it again.
        assert answer.headers["x-should-retry"] == "false"
    http.post(f"/v1/tasks/{task['id']}/cancel")
    service.finished(task["id"])
    assert http.delete(f"/v1/tasks/{task['id']}").status_code == 204


@pytest.mark.parametrize("path", DELETED)
def test_a_foreign_one_is_none(http: httpx.Client, stranger: httpx.Client, path: str) -> None:
    response = say(http)
    task_id = response["lmsp"]["task_id"]
    foreign = error(stranger.delete(path.format(task_id=task_id, **response)), 404)
    none = error(stranger.delete(path.format(task_id="task_none", id="resp_none")), 404)
    assert foreign["code"] == none["code"]
    assert http.get(f"/v1/tasks/{task_id}").status_code == 200


def test_only_who_may_write_may_delete(service: Service, http: httpx.Client) -> None:
    response = say(http)
    with service.http(token=service.pair("tasks reader", "tasks:read")) as reader:
        for path in DELETED:
            assert error(reader.delete(path.format(task_id=response["lmsp"]["task_id"], **response)), 403)


def test_a_key_keeps_the_result_of_what_was_deleted(http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "deleted"}
    first = http.post("/v1/responses", json=body(), headers=headers).json()
    assert http.delete(f"/v1/responses/{first['id']}").status_code == 200
    assert http.post("/v1/responses", json=body(), headers=headers).json() == first
