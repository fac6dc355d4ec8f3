"""WS /v1/events: all of one's tasks on one socket."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.api.bodies import STORY
from tests.service import Service


class Reader:
    """A client of the socket, with what it has been told: the events of each task, and everything else."""

    def __init__(self, opened: ClientConnection) -> None:
        self.opened = opened
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.order: list[str] = []
        self.ended: set[str] = set()

    def say(self, **frame: Any) -> None:
        self.opened.send(json.dumps(frame))

    def take(self) -> dict[str, Any] | None:
        """Take a frame; return it unless it is an event, a heartbeat or the end of a task."""
        frame: dict[str, Any] = json.loads(self.opened.recv(timeout=60))
        if "event" in frame:
            assert frame.keys() == {"task_id", "event"}
            self.events.setdefault(frame["task_id"], []).append(frame["event"])
            self.order.append(frame["task_id"])
        elif frame["type"] == "ended":
            self.ended.add(frame["task_id"])
        elif frame["type"] != "heartbeat":
            return frame
        return None

    def answer(self) -> dict[str, Any]:
        """Return the next answer to what was said."""
        while (frame := self.take()) is None:
            pass
        return frame

    def ask(self, **frame: Any) -> dict[str, Any]:
        self.say(**frame)
        return self.answer()

    def until_ended(self, *task_ids: str) -> None:
        while not self.ended.issuperset(task_ids):
            assert self.take() is None

    def cursors(self) -> dict[str, int]:
        return {task_id: events[-1]["sequence_number"] for task_id, events in self.events.items()}


@contextmanager
def reader(service: Service, token: str | None = None) -> Iterator[Reader]:
    headers = {"Authorization": f"Bearer {token or service.token}"}
    url = f"ws://127.0.0.1:{service.port}/v1/events"
    with connect(url, additional_headers=headers, open_timeout=30) as opened:
        yield Reader(opened)


@pytest.fixture(scope="module")
def done(service: Service) -> str:
    task_id: str = service.finished(service.create("Hi", max_output_tokens=4)["id"])["id"]
    return task_id


def test_several_tasks_come_whole_and_by_turns(service: Service, done: str) -> None:
    tasks = [service.create(STORY, max_output_tokens=40)["id"] for _ in range(3)]
    with reader(service) as one:
        for task_id in [*tasks, done]:
            assert one.ask(type="subscribe", task_id=task_id) == {"type": "subscribed", "task_id": task_id, "after": -1}
        one.until_ended(*tasks, done)
    for task_id in [*tasks, done]:
        assert one.events[task_id] == service.events(task_id)
    # Nobody had to wait for another's end.
    ends = [len(one.order) - 1 - one.order[::-1].index(task_id) for task_id in tasks]
    assert all(one.order.index(task_id) < min(ends) for task_id in tasks)


def test_after_resumes_and_the_last_event_is_the_end(service: Service, done: str) -> None:
    log = service.events(done)
    with reader(service) as one:
        one.ask(type="subscribe", task_id=done, after=3)
        one.until_ended(done)
        assert one.events[done] == log[4:]
        one.ended.clear()
        one.ask(type="subscribe", task_id=done, after=log[-1]["sequence_number"])
        one.until_ended(done)
        assert one.events[done] == log[4:]


def test_a_reader_that_comes_back_again_and_again_misses_nothing(service: Service) -> None:
    tasks = [service.create(STORY, max_output_tokens=24)["id"] for _ in range(3)]
    cursors = dict.fromkeys(tasks, -1)
    events: dict[str, list[dict[str, Any]]] = {task_id: [] for task_id in tasks}
    ended: set[str] = set()
    while ended != set(tasks):
        with reader(service) as one:
            assert one.ask(type="resume", cursors=cursors) == {"type": "resumed", "cursors": cursors, "not_found": []}
            for _ in range(9):
                if one.ended == set(tasks):
                    break
                one.take()
        for task_id, come in one.events.items():
            events[task_id] += come
        cursors |= one.cursors()
        ended |= one.ended
    assert events == {task_id: service.events(task_id) for task_id in tasks}


def test_all_tasks_are_those_that_run_and_those_that_come(service: Service, done: str) -> None:
    running = service.create(STORY, max_output_tokens=40)["id"]
    with reader(service) as one:
        assert one.ask(type="subscribe", tasks="all") == {"type": "subscribed", "tasks": "all"}
        later = [service.create("Hi", max_output_tokens=4)["id"] for _ in range(3)]
        one.until_ended(running, *later)
        assert done not in one.events
        service.create("Hi", max_output_tokens=4)
        assert one.ask(type="unsubscribe", tasks="all") == {"type": "unsubscribed", "tasks": "all"}
    for task_id in [running, *later]:
        assert one.events[task_id] == service.events(task_id)


def test_tasks_that_ran_while_nobody_was_connected_are_told_since(service: Service) -> None:
    with reader(service) as one:
        one.ask(type="subscribe", tasks="all")
        begun = service.create(STORY, max_output_tokens=24)["id"]
        while not one.events.get(begun):
            one.take()
    missed = service.finished(service.create("Hi", max_output_tokens=4)["id"])["id"]
    service.finished(begun)
    with reader(service) as two:
        two.ask(type="resume", cursors=one.cursors())
        two.ask(type="subscribe", tasks="all", since=max(one.events))
        two.until_ended(begun, missed)
    assert two.events[missed] == service.events(missed)
    assert one.events[begun] + two.events[begun] == service.events(begun)


def test_what_is_unsubscribed_comes_no_more(service: Service) -> None:
    task_id = service.create(STORY, max_output_tokens=300)["id"]
    with reader(service) as one:
        one.ask(type="subscribe", tasks="all")
        while not one.events.get(task_id):
            one.take()
        assert one.ask(type="unsubscribe", task_id=task_id) == {"type": "unsubscribed", "task_id": task_id}
        known = len(one.events[task_id])
        other = service.finished(service.create("Hi", max_output_tokens=2)["id"])["id"]
        one.until_ended(other)
        assert len(one.events[task_id]) == known
        service.request("POST", f"/v1/tasks/{task_id}/cancel")


@pytest.mark.parametrize(
    ("frame", "code", "param"),
    [
        ("no json", "invalid_json", None),
        ("[]", "invalid_json", None),
        (b"\x00", "invalid_json", None),
        ("{}", "invalid_request", "type"),
        ('{"type":"shout"}', "invalid_request", "type"),
        ('{"type":"subscribe"}', "invalid_request", "task_id"),
        ('{"type":"subscribe","task_id":7}', "invalid_request", "task_id"),
        ('{"type":"subscribe","task_id":"task_unknown"}', "task_not_found", None),
        ('{"type":"subscribe","task_id":"task_unknown","after":"1"}', "invalid_cursor", "after"),
        ('{"type":"subscribe","task_id":"task_unknown","after":-2}', "invalid_cursor", "after"),
        ('{"type":"subscribe","task_id":"task_unknown","after":true}', "invalid_cursor", "after"),
        ('{"type":"subscribe","tasks":"mine"}', "invalid_request", "tasks"),
        ('{"type":"subscribe","tasks":"all","since":"yesterday"}', "invalid_request", "since"),
        ('{"type":"resume","cursors":[]}', "invalid_request", "cursors"),
        ('{"type":"resume","cursors":{"task_x":null}}', "invalid_cursor", "cursors.task_x"),
    ],
)
def test_an_error_leaves_the_socket_open(
    service: Service, done: str, frame: str | bytes, code: str, param: str | None
) -> None:
    with reader(service) as one:
        one.opened.send(frame)
        told = one.answer()
        assert (told["type"], told["error"]["code"], told["error"]["param"]) == ("error", code, param)
        assert told["status"] == (404 if code == "task_not_found" else 400)
        one.ask(type="subscribe", task_id=done)
        one.until_ended(done)


def test_tasks_that_are_gone_do_not_keep_others_from_going_on(
    service: Service, stranger: httpx.Client, done: str
) -> None:
    never = f"task_{'0' * 26}"
    with reader(service) as one:
        told = one.ask(type="resume", cursors={never: 4, done: -1})
        assert told == {"type": "resumed", "cursors": {done: -1}, "not_found": [never]}
        one.until_ended(done)
    with reader(service, stranger.headers["Authorization"].removeprefix("Bearer ")) as other:
        assert other.ask(type="resume", cursors={done: -1})["not_found"] == [done]
        assert other.ask(type="subscribe", task_id=done)["error"]["code"] == "task_not_found"
        other.ask(type="subscribe", tasks="all")
        mine = service.finished(service.create("Hi", max_output_tokens=2)["id"])["id"]
        assert other.ask(type="unsubscribe", tasks="all")["type"] == "unsubscribed"
        assert mine not in other.events


def test_subscriptions_are_bounded(service: Service) -> None:
    with reader(service) as one:
        told = one.ask(type="resume", cursors={f"task_{number}": 0 for number in range(1001)})
        assert told["error"]["code"] == "too_many_subscriptions"
        assert one.ask(type="resume", cursors={f"task_{number}": 0 for number in range(1000)})["cursors"] == {}


def test_without_the_scope_it_closes_4403(service: Service) -> None:
    token = service.pair("cannot read events", "models:read")
    with reader(service, token) as one:
        told = one.answer()
        assert (told["type"], told["status"], told["error"]["code"]) == ("error", 403, "insufficient_scope")
        with pytest.raises(ConnectionClosed) as closed:
            one.answer()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403
