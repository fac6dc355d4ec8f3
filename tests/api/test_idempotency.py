"""Idempotency-Key: the same key and the same request are the same task."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.bodies import CREATING, STORY, TOO_LONG, body, error, rows
from tests.service import MODEL, Service
from tests.stream import sse

KEY = "Idempotency-Key"
REPLAYED = "idempotent-replayed"


def post(http: httpx.Client, path: str, key: str, request: dict[str, Any] | bytes) -> httpx.Response:
    content = request if isinstance(request, bytes) else json.dumps(request).encode()
    return http.post(path, content=content, headers={KEY: key, "Content-Type": "application/json"})


@pytest.mark.parametrize(("path", "request_"), [("/v1/tasks", body()), ("/v1/responses", body(background=True))])
def test_a_202_is_replayed_as_it_was_at_creation(
    service: Service, http: httpx.Client, path: str, request_: dict[str, Any]
) -> None:
    first = post(http, path, "replay", request_)
    task_id = first.json().get("lmsp", {}).get("task_id") or first.json()["id"]
    service.finished(task_id)
    service.settle()
    before = rows(service)
    again = post(http, path, "replay", request_)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.content == first.content
    assert again.json()["status"] == "queued"
    assert again.headers["location"] == first.headers["location"]
    assert REPLAYED not in first.headers
    assert again.headers[REPLAYED] == "true"
    assert rows(service) == before


def test_a_synchronous_result_is_replayed(service: Service, http: httpx.Client) -> None:
    first = post(http, "/v1/responses", "synchronous", body())
    service.settle()
    before = rows(service)
    again = post(http, "/v1/responses", "synchronous", body())
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert again.headers[REPLAYED] == "true"
    assert rows(service) == before


def test_a_stream_is_replayed_from_its_start(service: Service, http: httpx.Client) -> None:
    streams = []
    for _ in range(2):
        headers = {KEY: "streamed"}
        with http.stream("POST", "/v1/responses", json=body(stream=True), headers=headers) as answer:
            streams.append((answer.headers.get(REPLAYED), sse.events(list(sse.frames(answer)))))
    assert [replayed for replayed, _ in streams] == [None, "true"]
    assert streams[0][1] == streams[1][1]


def test_a_request_that_still_runs_is_joined(service: Service, http: httpx.Client) -> None:
    request = body(STORY, stream=True, max_output_tokens=40)
    headers = {KEY: "joined"}
    with http.stream("POST", "/v1/responses", json=request, headers=headers) as first:
        arriving = sse.frames(first)
        begun = [next(arriving) for _ in range(6)]
        with http.stream("POST", "/v1/responses", json=request, headers=headers) as second:
            assert second.headers[REPLAYED] == "true"
            joined = list(sse.frames(second))
        whole = [*begun, *arriving]
    assert whole == joined
    assert sse.events(whole)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("path", CREATING)
def test_another_request_with_the_same_key_is_422(service: Service, http: httpx.Client, path: str) -> None:
    post(http, path, "reused", body())
    service.settle()
    before = rows(service)
    found = error(post(http, path, "reused", body(max_output_tokens=5)), 422)
    assert (found["type"], found["code"]) == ("idempotency_error", "idempotency_key_reused")
    assert rows(service) == before


def test_a_default_spelled_out_is_another_request(http: httpx.Client) -> None:
    # The digest is taken before defaults are filled in.
    post(http, "/v1/tasks", "default", body())
    assert error(post(http, "/v1/tasks", "default", body(top_p=1)), 422)


def test_a_key_is_bound_to_its_client(service: Service, http: httpx.Client, stranger: httpx.Client) -> None:
    ours = post(http, "/v1/tasks", "bound", body()).json()
    theirs = post(stranger, "/v1/tasks", "bound", body(max_output_tokens=3))
    assert theirs.status_code == 202
    assert REPLAYED not in theirs.headers
    assert theirs.json()["id"] != ours["id"]


def test_a_key_is_bound_to_its_endpoint(http: httpx.Client) -> None:
    task = post(http, "/v1/tasks", "endpoint", body())
    response = post(http, "/v1/responses", "endpoint", body())
    assert REPLAYED not in response.headers
    assert response.json()["lmsp"]["task_id"] != task.json()["id"]


def test_the_form_of_the_json_does_not_matter(http: httpx.Client) -> None:
    forms = [
        f'{{"model": "{MODEL}", "input": "é \\"", "temperature": 1, "top_p": 0.5, "max_output_tokens": 2}}',
        f'{{"max_output_tokens":2,"top_p":5e-1,"temperature":1.0,"input":"\\u00e9 \\u0022","model":"{MODEL}"}}',
        f'\n {{"temperature": 10E-1, "input": "é \\"", "top_p": 0.500,\t"max_output_tokens": 2, "model": "{MODEL}"}} ',
    ]
    answers = [post(http, "/v1/tasks", "form", form.encode()) for form in forms]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert [REPLAYED in answer.headers for answer in answers] == [False, True, True]


@pytest.mark.parametrize(
    "change",
    ['"input": "e"', '"input": "É"', '"input": ["é"]', '"input": "e\\u0301"', '"temperature": 0.9999999999999999'],
)
def test_what_differs_at_all_is_another_request(http: httpx.Client, change: str) -> None:
    assert post(http, "/v1/tasks", "differs", body("é", temperature=1)).status_code == 202
    name, _, value = change.partition(": ")
    changed = body("é", temperature=1) | {json.loads(name): json.loads(value)}
    assert post(http, "/v1/tasks", "differs", changed).status_code in (400, 422)
    assert json.dumps(changed) != json.dumps(body("é", temperature=1))


@pytest.mark.parametrize("path", CREATING)
def test_a_refused_request_leaves_its_key_free(http: httpx.Client, path: str) -> None:
    for status, bad in (
        (400, b"{"),
        (400, body(temperature=9)),
        (404, body(model="unknown")),
        (400, body(TOO_LONG)),
    ):
        error(post(http, path, "free", bad), status)
    answer = post(http, path, "free", body())
    assert answer.status_code in (200, 202)
    assert REPLAYED not in answer.headers


@pytest.mark.parametrize(
    "key", ["x" * 255, "order 17/b", "8e03978e-40d5-43e8-bc93-6894a57f9324", "Ω".encode().decode("latin-1")]
)
def test_any_printable_key_is_a_key(http: httpx.Client, key: str) -> None:
    headers = [(KEY.encode(), key.encode("latin-1"))]
    answers = [http.post("/v1/tasks", json=body(max_output_tokens=1), headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].content == answers[1].content


def test_an_expired_key_is_forgotten(service: Service, http: httpx.Client) -> None:
    first = post(http, "/v1/tasks", "expired", body()).json()
    (lifetime,) = service.sql("SELECT expires_at FROM idempotency_keys WHERE key = 'expired'")[0]
    left = datetime.fromisoformat(lifetime).replace(tzinfo=UTC) - datetime.now(UTC)
    assert timedelta(hours=23.9) < left < timedelta(hours=24.1)
    service.sql("UPDATE idempotency_keys SET expires_at = '2001-01-01 00:00:00' WHERE key = 'expired'")
    other = post(http, "/v1/tasks", "expired", body(max_output_tokens=3))
    assert other.status_code == 202
    assert REPLAYED not in other.headers
    assert other.json()["id"] != first["id"]


def test_a_replay_needs_no_model(service: Service, http: httpx.Client, model_path: Path) -> None:
    service.manage("add_model", str(model_path), "--id", "forgotten")
    first = post(http, "/v1/tasks", "forgotten", body(model="forgotten"))
    service.settle()
    service.sql("DELETE FROM models WHERE id = 'forgotten'")
    assert error(post(http, "/v1/tasks", "another", body(model="forgotten")), 404)
    again = post(http, "/v1/tasks", "forgotten", body(model="forgotten"))
    assert (again.status_code, again.content) == (202, first.content)


def test_a_key_outlives_its_purged_task(service: Service, http: httpx.Client) -> None:
    first = {path: post(http, path, "purged", body()).json() for path in CREATING}
    service.settle()
    for found in first.values():
        task_id = found.get("lmsp", {}).get("task_id") or found["id"]
        service.sql("UPDATE tasks SET finished_at = '2001-01-01 00:00:00' WHERE id = ?", task_id)
    assert service.manage("purge_tasks")["tasks_deleted"] == 2
    for path, found in first.items():
        again = post(http, path, "purged", body())
        assert again.json() == found
        assert again.headers[REPLAYED] == "true"
        assert error(post(http, path, "purged", body(seed=1)), 422)
    with http.stream("POST", "/v1/responses", json=body(), headers={KEY: "purged"}) as answer:
        assert answer.status_code == 200
