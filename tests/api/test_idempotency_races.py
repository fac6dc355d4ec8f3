"""Idempotency-Key where many ask at once, and where the service is started again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.bodies import STORY, body
from tests.service import Service, eventually
from tests.stream import sse

MANY = 20
KEY = "Idempotency-Key"


def at_once(call: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(MANY) as threads:
        return [future.result() for future in [threads.submit(call) for _ in range(MANY)]]


def tasks_of(service: Service, key: str) -> int:
    """Return how many tasks carry the key as metadata."""
    return int(service.sql("SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.key') = ?", key)[0][0])


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/v1/tasks", {}, 202),
        ("/v1/responses", {"background": True}, 202),
        ("/v1/responses", {}, 200),
        ("/v1/responses", {"store": False}, 200),
    ],
)
def test_many_equal_requests_at_once_are_one_task_with_equal_answers(
    service: Service, http: httpx.Client, path: str, fields: dict[str, Any], status: int
) -> None:
    key = f"{path} {fields}"
    request = body(metadata={"key": key}, **fields)
    answers = at_once(lambda: http.post(path, json=request, headers={KEY: key}))
    assert {answer.status_code for answer in answers} == {status}, [answer.text for answer in answers]
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    left = 0 if fields.get("store") is False else 1
    eventually(lambda: tasks_of(service, key) == left)
    assert service.sql("SELECT count(*) FROM idempotency_keys WHERE key = ?", key) == [(1,)]


def test_many_equal_streams_at_once_are_one_stream(service: Service, http: httpx.Client) -> None:
    request = body(STORY, stream=True, max_output_tokens=12, metadata={"key": "streams"})
    streams = at_once(lambda: sse.read(http, "/v1/responses", method="POST", json=request, headers={KEY: "streams"}))
    assert all(stream == streams[0] for stream in streams)
    assert sse.events(streams[0])[-1]["type"] == "response.incomplete"
    assert tasks_of(service, "streams") == 1


def test_many_different_requests_with_one_key_are_one_task_and_many_refusals(
    service: Service, http: httpx.Client
) -> None:
    seeds = iter(range(MANY))
    answers = at_once(lambda: http.post("/v1/tasks", json=body(seed=next(seeds)), headers={KEY: "contested"}))
    assert sorted(answer.status_code for answer in answers) == [202] + [422] * (MANY - 1)


def test_a_key_outlives_a_restart(own_service: Service) -> None:
    def call(path: str) -> httpx.Response:
        return own_service.request("POST", path, json=body(), headers={KEY: "restart"})

    before = {path: call(path) for path in ("/v1/tasks", "/v1/responses")}
    own_service.finished(before["/v1/tasks"].json()["id"])
    own_service.stop()
    own_service.start()
    for path, answer in before.items():
        again = call(path)
        assert (again.status_code, again.content) == (answer.status_code, answer.content)
        assert again.headers["idempotent-replayed"] == "true"
    assert own_service.sql("SELECT count(*) FROM tasks") == [(2,)]
    own_service.check_log()
