"""GET /v1/tasks/{id}/events as server-sent events."""

from typing import Any

import httpx
import pytest

from tests.api.bodies import STORY, error
from tests.service import Service
from tests.stream import sse


@pytest.fixture(scope="module")
def done(service: Service) -> dict[str, Any]:
    """A task that has ended by itself."""
    return service.finished(service.create("Hi", max_output_tokens=64)["id"])


@pytest.fixture(scope="module")
def log(service: Service, done: dict[str, Any]) -> list[dict[str, Any]]:
    return service.events(done["id"])


def path(task: dict[str, Any]) -> str:
    return f"/v1/tasks/{task['id']}/events"


def test_a_finished_task_is_replayed_and_the_stream_ends(
    service: Service, done: dict[str, Any], log: list[dict[str, Any]]
) -> None:
    with service.http() as http:
        received = sse.read(http, path(done))
    assert sse.events(received) == log
    for frame in received[:-1]:
        assert [name for name, _ in frame.fields] == ["id", "event", "data"]
        assert frame.field("id") == str(frame.event["sequence_number"])
        assert frame.field("event") == frame.event["type"]


@pytest.mark.parametrize("cursor", [0, 4, 9])
def test_a_cursor_resumes_right_after_it(
    service: Service, done: dict[str, Any], log: list[dict[str, Any]], cursor: int
) -> None:
    with service.http() as http:
        by_header = sse.read(http, path(done), headers={"Last-Event-ID": str(cursor)})
        by_query = sse.read(http, path(done), params={"after": cursor})
    assert sse.events(by_header) == sse.events(by_query) == log[cursor + 1 :]


def test_last_event_id_wins_over_after(service: Service, done: dict[str, Any], log: list[dict[str, Any]]) -> None:
    with service.http() as http:
        received = sse.read(http, path(done), params={"after": 0}, headers={"Last-Event-ID": "6"})
    assert sse.events(received) == log[7:]


def test_after_the_last_event_comes_the_end_alone(service: Service, done: dict[str, Any]) -> None:
    with service.http() as http:
        received = sse.read(http, path(done), headers={"Last-Event-ID": str(done["last_sequence_number"])})
    assert sse.events(received) == []


@pytest.mark.parametrize("value", ["-1", "1.5", "", "abc", "1 2", "0x1", "+3", "9" * 30, "9007199254740992"])
@pytest.mark.parametrize("name", ["Last-Event-ID", "after"])
def test_a_bad_cursor_is_refused_and_never_means_from_the_start(
    service: Service, done: dict[str, Any], name: str, value: str
) -> None:
    where: dict[str, Any] = {"params": {"after": value}} if name == "after" else {"headers": {name: value}}
    headers = {**sse.ACCEPT, **where.pop("headers", {})}
    found = error(service.request("GET", path(done), headers=headers, **where), 400)
    assert (found["param"], found["code"]) == (name, "invalid_cursor")


def test_a_foreign_task_and_one_that_never_was_are_the_same(
    service: Service, stranger: httpx.Client, done: dict[str, Any]
) -> None:
    never = f"task_{'0' * 26}"
    foreign = stranger.get(path(done), headers=sse.ACCEPT)
    unknown = stranger.get(path({"id": never}), headers=sse.ACCEPT)
    assert error(foreign, 404)["code"] == "task_not_found"
    assert foreign.text.replace(done["id"], never) == unknown.text


def test_readers_from_the_start_and_from_the_middle_see_everything_once(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=24)
    with service.http() as http, sse.stream(http, path(task)) as first:
        begun = [next(first) for _ in range(7)]
        with sse.stream(http, path(task)) as second:
            middle = begun[-1].field("id") or ""
            with sse.stream(http, path(task), headers={"Last-Event-ID": middle}) as third:
                rest = list(third)
            again = list(second)
        whole = [*begun, *first]
    assert again == whole
    assert rest == whole[7:]
    assert sse.events(whole) == service.events(task["id"])
    assert "".join(event.get("delta", "") for event in sse.events(whole)) == service.task(task["id"])["output_text"]


def test_events_come_while_the_task_runs(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=300)
    with service.http() as http, sse.stream(http, path(task)) as arriving:
        next(frame for frame in arriving if frame.field("event") == "response.output_text.delta")
        assert service.task(task["id"])["status"] == "running"
        service.request("POST", f"/v1/tasks/{task['id']}/cancel")
        rest = [*arriving]
    assert [frame.data if frame.data == sse.DONE else frame.field("event") for frame in rest][-3:] == [
        "response.cancelling",
        "response.cancelled",
        sse.DONE,
    ]


def test_a_reader_that_is_cut_off_again_and_again_misses_nothing(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=24)
    seen: list[sse.Frame] = []
    with service.http() as http:
        while not seen or seen[-1].data != sse.DONE:
            cursor = {"Last-Event-ID": seen[-1].field("id") or ""} if seen else {}
            with sse.stream(http, path(task), headers=cursor) as arriving:
                seen += [frame for frame, _ in zip(arriving, range(3), strict=False)]
    assert sse.events(seen) == service.events(task["id"])


def test_a_reader_that_leaves_takes_nothing_along(service: Service) -> None:
    task = service.create(STORY, max_output_tokens=16)
    with service.http() as http, sse.stream(http, path(task)) as arriving:
        next(arriving)
    assert service.finished(task["id"])["status"] == "completed"


@pytest.mark.parametrize(
    "accept", ["text/event-stream", "text/event-stream, application/json;q=0.5", "*/*;q=0.1, text/event-stream;q=1"]
)
def test_whoever_accepts_a_stream_gets_one(service: Service, done: dict[str, Any], accept: str) -> None:
    with service.http() as http:
        assert sse.events(sse.read(http, path(done), headers={"Accept": accept}))


def test_whoever_does_not_gets_a_page(service: Service, done: dict[str, Any]) -> None:
    for accept in ("application/json", "*/*", "application/json, text/*"):
        answer = service.request("GET", path(done), headers={"Accept": accept})
        assert answer.json()["object"] == "list"
