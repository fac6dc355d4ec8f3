"""Section 2: every change of state is one event, and the events are the whole story."""

from typing import Any

import pytest

from tests.api.bodies import STORY, body
from tests.service import Service, eventually
from tests.stream import sse

RESPONSE_STATUS = {
    "response.created": "queued",
    "response.queued": "queued",
    "response.loading": "queued",
    "response.in_progress": "in_progress",
    "response.cancelling": "in_progress",
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
OUTPUT = {
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
}


@pytest.fixture(scope="module")
def logs(service: Service) -> dict[str, list[dict[str, Any]]]:
    """A log for each way a task can end."""
    service.settle()
    waiting = [service.create(STORY, max_output_tokens=400)["id"] for _ in range(4)]
    eventually(lambda: all(service.task(task)["output_text"] for task in waiting), 60)
    never_run = service.create("Hi")["id"]
    for task in (never_run, *waiting):
        service.request("POST", f"/v1/tasks/{task}/cancel")
    tasks = {
        "cancelled while it waited": never_run,
        "cancelled while it ran": waiting[0],
        "completed": service.create("Hi", max_output_tokens=64)["id"],
        "incomplete": service.create("Hi", max_output_tokens=3)["id"],
        "nothing but its stop text": service.create("Hi", max_output_tokens=64, stop=["H", "h"])["id"],
    }
    for task in tasks.values():
        service.finished(task)
    return {way: service.events(task) for way, task in tasks.items()}


WAYS = pytest.mark.parametrize(
    "way",
    ["cancelled while it waited", "cancelled while it ran", "completed", "incomplete", "nothing but its stop text"],
)


def states(log: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in log if event["type"] in RESPONSE_STATUS and event["type"] != "response.loading"]


@WAYS
def test_numbers_start_at_zero_and_have_no_gap(logs: dict[str, list[dict[str, Any]]], way: str) -> None:
    assert [event["sequence_number"] for event in logs[way]] == list(range(len(logs[way])))


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("cancelled while it waited", ["cancelled"]),
        ("cancelled while it ran", ["in_progress", "cancelling", "cancelled"]),
        ("completed", ["in_progress", "completed"]),
        ("incomplete", ["in_progress", "incomplete"]),
        ("nothing but its stop text", ["in_progress", "completed"]),
    ],
)
def test_every_change_of_state_is_one_event(
    logs: dict[str, list[dict[str, Any]]], way: str, expected: list[str]
) -> None:
    assert states(logs[way]) == [f"response.{name}" for name in ("created", "queued", *expected)]


@WAYS
def test_every_state_event_carries_the_response_as_it_then_is(logs: dict[str, list[dict[str, Any]]], way: str) -> None:
    text, opened = "", False
    for event in logs[way]:
        opened = opened or event["type"] == "response.output_item.added"
        text += event.get("delta", "")
        assert ("response" in event) is (event["type"] in RESPONSE_STATUS)
        if "response" in event:
            response = event["response"]
            assert response["status"] == RESPONSE_STATUS[event["type"]]
            assert len(response["output"]) == opened
            assert "".join(item["content"][0]["text"] for item in response["output"]) == text
            ended = response["status"] not in ("queued", "in_progress")
            assert (response["usage"] is not None) is ended
            assert (response["completed_at"] is not None) is (response["status"] in ("completed", "incomplete"))


@WAYS
def test_nothing_but_what_is_known_is_in_a_log(logs: dict[str, list[dict[str, Any]]], way: str) -> None:
    assert {event["type"] for event in logs[way]} <= RESPONSE_STATUS.keys() | OUTPUT


@WAYS
def test_the_birth_of_a_task_is_two_events_and_the_first_claim_is_number_one(
    logs: dict[str, list[dict[str, Any]]], way: str
) -> None:
    created, queued, *rest = logs[way]
    assert (created["type"], queued["type"], queued["attempt"]) == ("response.created", "response.queued", 1)
    assert created["response"] == queued["response"]
    for event in rest:
        if event["type"] in ("response.loading", "response.in_progress"):
            assert event["attempt"] == 1
            assert "resumed" not in event


def test_a_cancel_is_the_end_and_what_was_open_is_incomplete(logs: dict[str, list[dict[str, Any]]]) -> None:
    log = logs["cancelled while it ran"]
    assert not {"response.output_text.done", "response.output_item.done"} & {event["type"] for event in log}
    (item,) = log[-1]["response"]["output"]
    assert item["status"] == "incomplete"
    assert item["id"] == next(event["item"]["id"] for event in log if event["type"] == "response.output_item.added")


@pytest.mark.parametrize("way", ["completed", "incomplete", "nothing but its stop text"])
def test_an_output_is_opened_and_closed_in_order(logs: dict[str, list[dict[str, Any]]], way: str) -> None:
    kinds = [event["type"].removeprefix("response.") for event in logs[way] if event["type"] in OUTPUT]
    deltas = kinds.count("output_text.delta")
    assert kinds == [
        *("output_item.added", "content_part.added"),
        *["output_text.delta"] * deltas,
        *("output_text.done", "content_part.done", "output_item.done"),
    ]
    assert (deltas > 0) is (way != "nothing but its stop text")
    ids = {event.get("item_id") or event["item"]["id"] for event in logs[way] if event["type"] in OUTPUT}
    assert len(ids) == 1
    assert next(iter(ids)).startswith("msg_")


@WAYS
def test_no_delta_is_empty(logs: dict[str, list[dict[str, Any]]], way: str) -> None:
    assert all(event["delta"] for event in logs[way] if event["type"] == "response.output_text.delta")


def test_the_same_object_comes_by_every_way(service: Service) -> None:
    task = service.finished(service.create("Hi", max_output_tokens=3)["id"])
    with service.http() as http:
        streamed = sse.events(sse.read(http, f"/v1/tasks/{task['id']}/events"))
    assert streamed == service.events(task["id"])


@pytest.fixture
def cold(own_service: Service) -> Service:
    """A service that has not loaded its model yet."""
    assert own_service.request("GET", "/v1/models").json()["data"][0]["state"] == "unloaded"
    return own_service


def test_loading_is_a_state_of_its_own_and_passed_over_when_the_model_is_in_memory(cold: Service) -> None:
    with cold.http() as http:
        events = sse.events(sse.read(http, "/v1/responses", method="POST", json=body(stream=True)))
    first = cold.events(events[0]["response"]["lmsp"]["task_id"])
    second = cold.events(cold.finished(cold.create("Hi", max_output_tokens=2)["id"])["id"])
    loading = [event for event in first if event["type"] == "response.loading"]
    assert [(event["sequence_number"], event["attempt"]) for event in loading] == [(2, 1)]
    assert "response.loading" not in {event["type"] for event in second}
    # Open Responses does not know it: the response's stream has a gap in its place.
    assert [event["sequence_number"] for event in events[:3]] == [0, 1, 3]
