"""What a client has open ends within seconds once it may not have it any more, by whomever that was decided."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from clients_app.scopes import ALL, TASKS_READ
from tests.api.bodies import STORY, body
from tests.api.clients import Paired, paired
from tests.service import Service, eventually
from tests.stream import by_hand
from tests.stream.sse import ACCEPT

WITHIN_SECONDS = 5.0
LONG = {"max_output_tokens": 4000}


class Ended(NamedTuple):
    """How a stream, a socket or a call that waited has ended."""

    at: float
    status: int
    text: str


class Open:
    """Everything that can be open, opened by one client and read by threads."""

    def __init__(self, service: Service, client: Paired) -> None:
        self.service, self.client = service, client
        self.ends: dict[str, Future[Ended]] = {}
        self._threads = ThreadPoolExecutor(12)

    def close(self) -> None:
        self._threads.shutdown()

    def stream(self, name: str, method: str, path: str, **options: Any) -> None:
        """Open a stream, and come back when something has come."""

        def read(begun: Event) -> Ended:
            text = ""
            with self.service.http(token=self.client.token) as http, http.stream(method, path, **options) as answer:
                for piece in answer.iter_text():
                    text += piece
                    begun.set()
            return Ended(time.monotonic(), answer.status_code, text)

        self._begin(name, read)

    def wait(self, name: str, path: str) -> None:
        """Make a call that waits for a long answer."""

        def read(begun: Event) -> Ended:
            with self.service.http(token=self.client.token) as http:
                begun.set()
                answer = http.post(path, json=body(STORY, **LONG))
            return Ended(time.monotonic(), answer.status_code, answer.text)

        self._begin(name, read)

    def socket(self, name: str, path: str, first: dict[str, Any] | None) -> None:
        """Open a socket, say something, and come back when something has come."""

        def read(begun: Event) -> Ended:
            told = ""
            headers = {"Authorization": f"Bearer {self.client.token}"}
            address = f"ws://127.0.0.1:{self.service.port}{path}"
            with connect(address, additional_headers=headers, open_timeout=30) as opened:
                if first is not None:
                    opened.send(json.dumps(first))
                with suppress(ConnectionClosed):
                    while True:
                        told = str(opened.recv(timeout=60))
                        begun.set()
                return Ended(time.monotonic(), opened.close_code or 0, told)

        self._begin(name, read)

    def _begin(self, name: str, read: Callable[[Event], Ended]) -> None:
        begun = Event()
        self.ends[name] = self._threads.submit(read, begun)
        assert begun.wait(60), name

    def ended(self, name: str, since: float) -> Ended:
        """Wait for the end of one, which has to come in time."""
        end = self.ends.pop(name).result(WITHIN_SECONDS + 5)
        assert end.at - since < WITHIN_SECONDS, f"{name} ended after {end.at - since:.1f} s"
        return end

    def everything(self, name: str) -> str:
        """Open all kinds, and return the task in the background that three of them follow."""
        task_id = by_hand.idle(self.service, name, self.client.id)
        response_id = task_id.replace("task_", "resp_")
        self.stream("events", "GET", f"/v1/tasks/{task_id}/events", headers=ACCEPT)
        self.stream("replay", "GET", f"/v1/responses/{response_id}", params={"stream": "true"})
        self.stream("response", "POST", "/v1/responses", json=body(STORY, stream=True, **LONG))
        self.wait("waiting", "/v1/responses")
        self.socket("task", f"/v1/tasks/{task_id}/events", None)
        self.socket("all", "/v1/events", {"type": "subscribe", "tasks": "all"})
        self.socket("responses", "/v1/responses", {"type": "response.create", **body(STORY, **LONG)})
        # The call that waits has been accepted, too.
        eventually(lambda: len(self.unfinished()) == 4, 30, "four tasks are unfinished")
        return task_id

    def unfinished(self) -> list[Any]:
        found = self.service.sql("SELECT id FROM tasks WHERE client_id = ? AND finished_at IS NULL", self.client.id)
        return [task_id for (task_id,) in found]


STREAMS = ("events", "replay", "response")
SOCKETS = ("task", "all", "responses")


@pytest.fixture
def opened(service: Service) -> Iterator[Open]:
    streams = Open(service, paired(service, "withdrawn", *ALL))
    yield streams
    # Whatever a test has left: the others end with it.
    service.manage("revoke_client", streams.client.id)
    streams.close()
    service.settle()


def see_withdrawn(end: Ended, name: str, status: int, code: str) -> None:
    if name in STREAMS:
        assert end.status == 200
        # Whole frames, and not what says that it was all.
        assert end.text.endswith("\n\n")
        assert "[DONE]" not in end.text
        return
    told = json.loads(end.text)
    assert told["error"]["code"] == code
    if name == "waiting":
        assert end.status == status
    else:
        assert (told["type"], told["status"], end.status) == ("error", status, 4000 + status)


def test_a_revoked_client_is_left_with_nothing(service: Service, opened: Open) -> None:
    opened.everything("revoked")
    told = service.manage("revoke_client", opened.client.id)
    revoked = time.monotonic()
    for name in ("all", "responses"):
        see_withdrawn(opened.ended(name, revoked), name, 401, "invalid_token")
    # These may have seen first that their tasks were cancelled.
    for name in ("events", "replay", "response", "waiting", "task"):
        end = opened.ended(name, revoked)
        if "response.cancelled" not in end.text and '"status":"cancelled"' not in end.text:
            see_withdrawn(end, name, 401, "invalid_token")
    assert told["tasks_cancelled"] > 0
    eventually(lambda: not opened.unfinished(), WITHIN_SECONDS, "its tasks have ended")
    states = service.sql("SELECT DISTINCT status FROM tasks WHERE client_id = ?", opened.client.id)
    assert states == [("cancelled",)]
    with service.http(token=opened.client.token) as http:
        assert http.get("/v1/tasks").status_code == 401
    service.check_log()


def test_one_that_has_expired_keeps_its_work(service: Service, opened: Open) -> None:
    task_id = opened.everything("expired")
    before = time.monotonic()
    service.sql("UPDATE clients SET expires_at = datetime('now') WHERE id = ?", opened.client.id)
    for name in (*STREAMS, *SOCKETS, "waiting"):
        see_withdrawn(opened.ended(name, before), name, 401, "invalid_token")
    # What a caller had to be there for has ended with it, as when it hangs up.
    eventually(lambda: opened.unfinished() == [task_id], 10, "its task in the background goes on")
    service.sql("UPDATE clients SET expires_at = datetime('now', '+1 day') WHERE id = ?", opened.client.id)
    with service.http(token=opened.client.token) as http:
        assert http.get(f"/v1/tasks/{task_id}").status_code == 200


def test_of_a_narrowed_client_ends_what_it_may_not_have_any_more(service: Service, opened: Open) -> None:
    opened.everything("narrowed")
    for scopes, gone in ([TASKS_READ], ("replay", "response", "waiting", "responses")), ([], ("events", "task", "all")):
        before = time.monotonic()
        assert not any(opened.ends[name].done() for name in gone)
        service.sql("UPDATE clients SET scopes = ? WHERE id = ?", json.dumps(scopes), opened.client.id)
        for name in gone:
            see_withdrawn(opened.ended(name, before), name, 403, "insufficient_scope")


def test_a_deleted_client_is_an_unknown_one(service: Service, opened: Open) -> None:
    opened.socket("all", "/v1/events", {"type": "unsubscribe", "tasks": "all"})
    opened.socket("responses", "/v1/responses", {})
    before = time.monotonic()
    service.sql("DELETE FROM clients WHERE id = ?", opened.client.id)
    for name in ("all", "responses"):
        see_withdrawn(opened.ended(name, before), name, 401, "invalid_token")
    # For the fixture, which revokes it.
    opened.client = paired(service, "nobody")


def test_a_replaced_token_takes_its_streams_along_when_the_overlap_ends(service: Service, opened: Open) -> None:
    opened.socket("all", "/v1/events", {"type": "unsubscribe", "tasks": "all"})
    rotated = service.manage("rotate_token", opened.client.id, "--overlap", "3")
    assert not opened.ends["all"].done()
    with service.http(token=opened.client.token) as http:
        assert http.get("/v1/tasks").status_code == 200
    with_old_token, opened.client = opened.client, Paired(opened.client.id, rotated["token"])
    opened.socket("responses", "/v1/responses", {})
    until = time.monotonic() + rotated["previous_token_until"] - time.time()
    see_withdrawn(opened.ended("all", until + 1), "all", 401, "invalid_token")
    with service.http(token=with_old_token.token) as http:
        assert http.get("/v1/tasks").status_code == 401
    assert not opened.ends["responses"].done()
    service.manage("rotate_token", opened.client.id, "--overlap", "0")
    see_withdrawn(opened.ended("responses", time.monotonic()), "responses", 401, "invalid_token")
