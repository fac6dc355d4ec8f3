"""/v1/clients/me: what a client knows of itself and does to itself; and what a quota looks like to it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from clients_app.scopes import ALL
from tests.api.bodies import STORY, body, error
from tests.api.clients import Paired, paired
from tests.service import MODEL, Service, eventually

ME = "/v1/clients/me"


@pytest.fixture
def own(service: Service) -> Iterator[Paired]:
    """A client of the test's own, with all scopes; its limits are set by ``limit``."""
    made = paired(service, "own", *ALL)
    yield made
    service.sql("UPDATE tasks SET expires_at = '2020-01-01' WHERE client_id = ? AND finished_at IS NULL", made.id)


@pytest.fixture
def http(service: Service, own: Paired) -> Iterator[httpx.Client]:
    with service.http(token=own.token) as client:
        yield client


def limit(service: Service, own: Paired, **limits: int) -> None:
    columns = ", ".join(f"{name} = ?" for name in limits)
    service.sql(f"UPDATE clients SET {columns} WHERE id = ?", *limits.values(), own.id)


def test_a_client_sees_its_own_record(service: Service, own: Paired, http: httpx.Client) -> None:
    limit(service, own, max_queued=7)
    task = http.post("/v1/tasks", json=body()).json()
    eventually(lambda: http.get(f"/v1/tasks/{task['id']}").json()["finished_at"], what="the task has finished")
    shown = http.get(ME).json()
    assert (shown["id"], shown["name"], shown["scopes"], shown["expires_at"]) == (own.id, "own", list(ALL), None)
    assert shown["last_used_at"] is not None
    quotas = shown["quotas"]
    assert quotas["queued"] == {"limit": 7, "used": 0, "remaining": 7}
    assert quotas["tokens_per_day"]["used"] > 4
    assert quotas["stored_bytes"]["used"] > 500
    assert own.token not in json.dumps(shown)
    with service.http(token=paired(service, "nothing").token) as nobody:
        assert nobody.get(ME).json()["scopes"] == []
    (day,) = http.get(f"{ME}/usage").json()["data"]
    assert (day["tasks"], day["model"], day["total_tokens"]) == (1, None, quotas["tokens_per_day"]["used"])
    (entry,) = http.get(f"{ME}/usage", params={"group_by": "model", "from": day["day"], "to": day["day"]}).json()[
        "data"
    ]
    assert entry == {**day, "model": MODEL}
    assert http.get(f"{ME}/usage", params={"model": "another"}).json()["data"] == []


@pytest.mark.parametrize(
    ("parameters", "param"),
    [
        ({"from": "yesterday"}, "from"),
        ({"from": "20300101"}, "from"),
        ({"to": "2030-02-30"}, "to"),
        ({"from": "2030-01-02", "to": "2030-01-01"}, "from"),
        ({"from": "2028-01-01", "to": "2030-01-01"}, "from"),
        ({"group_by": "week"}, "group_by"),
        ({"limit": "3"}, "limit"),
    ],
)
def test_days_that_cannot_be_meant_are_refused(service: Service, parameters: dict[str, str], param: str) -> None:
    assert error(service.request("GET", f"{ME}/usage", params=parameters), 400)["param"] == param


def test_a_client_replaces_its_token(service: Service, own: Paired, http: httpx.Client) -> None:
    answer = http.post(f"{ME}/rotate")
    assert answer.headers["cache-control"] == "no-store"
    token = answer.json()["access_token"]
    assert answer.json()["client_id"] == own.id
    with service.http(token=token) as new:
        assert new.get(ME).json()["previous_token_until"] == answer.json()["previous_token_until"]
        assert http.get(ME).status_code == 200
        # Had the answer been lost, the old token would have got another: the lost one stays good for the overlap.
        another = http.post(f"{ME}/rotate", json={"overlap_seconds": 60}).json()["access_token"]
        assert (http.get(ME).status_code, new.get(ME).status_code) == (401, 200)
        with service.http(token=another) as newest:
            last = newest.post(f"{ME}/rotate", json={"overlap_seconds": 0}).json()["access_token"]
            assert newest.get(ME).status_code == 401
    with service.http(token=last) as newest:
        for seconds in (-1, 2_592_001, 1.5, "60", True):
            assert error(newest.post(f"{ME}/rotate", json={"overlap_seconds": seconds}), 400)["param"]
    logged = service.sql("SELECT actor_kind, action FROM audit_log WHERE subject_id = ? AND actor = ?", own.id, own.id)
    assert logged == [("client", "rotated")] * 3


def test_a_client_revokes_itself(service: Service, own: Paired, http: httpx.Client) -> None:
    waiting = http.post("/v1/tasks", json=body(STORY, max_output_tokens=2000)).json()["id"]
    with connect(f"ws://127.0.0.1:{service.port}/v1/events", additional_headers=dict(http.headers)) as socket:
        assert http.delete(ME).status_code == 204
        told = json.loads(socket.recv(timeout=10))
        assert told["error"]["code"] == "invalid_token"
    assert error(http.get(ME), 401)["code"] == "invalid_token"
    ended = "SELECT status FROM tasks WHERE id = ? AND finished_at IS NOT NULL"
    assert eventually(lambda: service.sql(ended, waiting), what="its task has ended") == [("cancelled",)]
    logged = service.sql("SELECT actor_kind, actor, action FROM audit_log WHERE subject_id = ?", own.id)
    assert logged == [("client", own.id, "revoked")]


# --- Quotas, as they are told. ---


def told_limits(answer: httpx.Response) -> tuple[str | None, ...]:
    return tuple(answer.headers.get(f"ratelimit-{name}") for name in ("limit", "remaining", "reset"))


def test_requests_a_minute_count_whatever_is_called(service: Service, own: Paired, http: httpx.Client) -> None:
    assert told_limits(http.get(ME)) == (None, None, None)
    limit(service, own, max_requests_per_minute=5)
    answers = [
        http.get("/v1/models"),
        http.get("/v1/tasks/none"),
        http.get("/v1/responses/none?stream=true"),
        http.post("/v1/responses", json={}),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 404, 400]
    assert [told_limits(answer)[:2] for answer in answers] == [("5", str(left)) for left in (4, 3, 2, 1)]
    headers = {"Authorization": f"Bearer {own.token}"}
    with connect(f"ws://127.0.0.1:{service.port}/v1/responses", additional_headers=headers) as socket:
        socket.send(json.dumps({"type": "response.create", **body()}))
        told = json.loads(socket.recv(timeout=30))
        assert (told["type"], told["status"], told["error"]["code"]) == ("error", 429, "rate_limit_exceeded")
        # The socket outlives it.
        socket.send(json.dumps({"type": "response.cancel"}))
        assert json.loads(socket.recv(timeout=30))["error"]["code"] == "invalid_request"
    with connect(f"ws://127.0.0.1:{service.port}/v1/events", additional_headers=headers) as socket:
        assert json.loads(socket.recv(timeout=30))["error"]["code"] == "rate_limit_exceeded"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=30)
        assert socket.close_code == 4429
    for path in ("/v1/models", "/v1/responses/none?stream=true"):
        refused = http.get(path)
        assert error(refused, 429)["type"] == "rate_limit_error"
        assert told_limits(refused) == ("5", "0", refused.headers["retry-after"])
        assert 0 < int(refused.headers["retry-after"]) <= 60


def test_twenty_requests_at_once_leave_no_more_queued_than_may_be(
    service: Service, own: Paired, http: httpx.Client
) -> None:
    limit(service, own, max_running=1, max_queued=3)
    running = http.post("/v1/tasks", json=body(STORY, max_output_tokens=2000)).json()["id"]
    eventually(lambda: http.get(f"/v1/tasks/{running}").json()["attempt"], what="the first has begun")

    def create(number: int) -> httpx.Response:
        # Some by each of the ways there are.
        if number % 2:
            return http.post("/v1/responses", json=body(STORY, max_output_tokens=2000, background=True))
        return http.post("/v1/tasks", json=body(STORY, max_output_tokens=2000))

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(create, range(20)))
    refused = [answer for answer in answers if answer.status_code != 202]
    assert len(answers) - len(refused) == 3
    for answer in refused:
        assert error(answer, 429)["code"] == "too_many_queued_tasks"
        assert (answer.headers["ratelimit-limit"], answer.headers["ratelimit-remaining"]) == ("3", "0")
    assert error(http.post("/v1/responses", json=body(stream=True)), 429)["code"] == "too_many_queued_tasks"
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    assert error(http.post("/v1/chat/completions", json=chat), 429)["code"] == "too_many_queued_tasks"
    headers = {"Authorization": f"Bearer {own.token}"}
    with connect(f"ws://127.0.0.1:{service.port}/v1/responses", additional_headers=headers) as socket:
        socket.send(json.dumps({"type": "response.create", **body()}))
        told: dict[str, Any] = json.loads(socket.recv(timeout=30))
        assert (told["status"], told["error"]["code"]) == (429, "too_many_queued_tasks")
    # Nobody waits behind them, and what was accepted is left waiting.
    assert service.finished(service.create("Hi", max_output_tokens=2)["id"])["status"] == "completed"
    assert http.get(ME).json()["quotas"]["queued"] == {"limit": 3, "used": 3, "remaining": 0}
    assert http.get(ME).json()["quotas"]["running"] == {"limit": 1, "used": 1, "remaining": 0}
    for task in http.get("/v1/tasks").json()["data"]:
        http.post(f"/v1/tasks/{task['id']}/cancel")


def test_the_official_client_does_not_ask_again_before_tomorrow(service: Service, own: Paired) -> None:
    limit(service, own, max_tokens_per_day=1)
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key=own.token, max_retries=2) as client:
        client.responses.create(model=MODEL, input="Hi", max_output_tokens=2)
        with pytest.raises(openai.RateLimitError) as caught:
            client.responses.create(model=MODEL, input="Hi", max_output_tokens=2)
    assert caught.value.code == "insufficient_quota"
    assert caught.value.request.headers["x-stainless-retry-count"] == "0"
    assert int(caught.value.response.headers["retry-after"]) > 0


def test_an_earlier_result_is_told_whatever_is_used_up(service: Service, own: Paired, http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "once"}
    first = http.post("/v1/responses", json=body(), headers=headers).json()
    limit(service, own, max_stored_bytes=1)
    assert http.post("/v1/responses", json=body(), headers=headers).json() == first
    assert error(http.post("/v1/responses", json=body()), 429)["code"] == "storage_quota_exceeded"
    assert http.delete(f"/v1/responses/{first['id']}").status_code == 200
    assert http.post("/v1/responses", json=body()).status_code == 200
