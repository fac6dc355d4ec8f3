"""GET /v1/tasks/{id}/events as JSON pages."""

from typing import Any

import pytest

from tests.api.bodies import error
from tests.service import Service

LOG = [
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


@pytest.fixture(scope="module")
def done(service: Service) -> dict[str, Any]:
    """A task that has ended by itself."""
    return service.finished(service.create("Hi", max_output_tokens=64)["id"])


def page(service: Service, task: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    answer = service.request("GET", f"/v1/tasks/{task['id']}/events", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found.keys() == {"object", "data", "first_id", "last_id", "has_more"}
    assert found["object"] == "list"
    return found


def test_the_log_of_a_task_tells_its_life_in_order(service: Service, done: dict[str, Any]) -> None:
    events = service.events(done["id"])
    types = [event["type"] for event in events if event["type"] != "response.loading"]
    assert list(dict.fromkeys(types)) == LOG
    assert [kind for kind in types if kind != "response.output_text.delta"] == [
        kind for kind in LOG if kind != "response.output_text.delta"
    ]
    assert [event["sequence_number"] for event in events] == list(range(done["last_sequence_number"] + 1))


def test_the_text_is_the_same_wherever_it_is_read(service: Service, done: dict[str, Any]) -> None:
    events = service.events(done["id"])
    by_type = {event["type"]: event for event in events}
    texts = {
        "deltas": "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta"),
        "done": by_type["response.output_text.done"]["text"],
        "part": by_type["response.content_part.done"]["part"]["text"],
        "item": by_type["response.output_item.done"]["item"]["content"][0]["text"],
        "terminal": by_type["response.completed"]["response"]["output"][0]["content"][0]["text"],
        "response": service.request("GET", f"/v1/responses/{done['response_id']}").json()["output"][0]["content"][0][
            "text"
        ],
    }
    assert set(texts.values()) == {done["output_text"]}
    assert done["output_text"]


def test_the_response_is_the_one_of_the_terminal_event(service: Service, done: dict[str, Any]) -> None:
    stored = service.request("GET", f"/v1/responses/{done['response_id']}").json()
    assert stored == service.events(done["id"])[-1]["response"]
    assert stored["usage"] == done["usage"]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_pages_after_one_another_are_the_whole_log(service: Service, done: dict[str, Any], limit: int) -> None:
    whole = service.events(done["id"])
    seen: list[dict[str, Any]] = []
    more = True
    while more:
        cursor = {"after": seen[-1]["sequence_number"]} if seen else {}
        found = page(service, done, limit=limit, **cursor)
        assert len(found["data"]) == min(limit, len(whole) - len(seen))
        assert found["first_id"] == found["data"][0]["sequence_number"]
        assert found["last_id"] == found["data"][-1]["sequence_number"]
        seen += found["data"]
        more = found["has_more"]
        assert more is (len(seen) < len(whole))
    assert seen == whole


def test_after_is_exclusive_and_starts_at_zero(service: Service, done: dict[str, Any]) -> None:
    assert page(service, done)["first_id"] == 0
    assert page(service, done, after=0)["first_id"] == 1
    assert page(service, done, after=4, limit=1)["last_id"] == 5


@pytest.mark.parametrize("beyond", [0, 1, 1000])
def test_an_empty_page_has_no_ids(service: Service, done: dict[str, Any], beyond: int) -> None:
    assert page(service, done, after=done["last_sequence_number"] + beyond) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_a_limit_over_the_most_is_clamped(service: Service, done: dict[str, Any]) -> None:
    assert page(service, done, limit=1001) == page(service, done, limit=1000)


def test_a_page_has_a_hundred_events_and_at_most_a_thousand(service: Service) -> None:
    task = service.finished(service.create("Hi", max_output_tokens=1)["id"])
    # A log longer than a model would write in a test: the service's own events, many times over.
    service.sql(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1199)"
        " INSERT INTO task_events (task_id, sequence_number, type, data, created_ms)"
        " SELECT ?, 10000 + i, 'response.output_text.delta', '{\"delta\":\"\"}', 0 FROM n",
        task["id"],
    )
    try:
        assert [len(page(service, task, after=9999, **limit)["data"]) for limit in ({}, {"limit": 5000})] == [100, 1000]
        assert page(service, task, after=9999, limit=5000)["has_more"] is True
        assert page(service, task, after=10199, limit=5000)["has_more"] is False
    finally:
        service.sql("DELETE FROM task_events WHERE task_id = ? AND sequence_number >= 10000", task["id"])


@pytest.mark.parametrize("value", ["-1", "1.0", "", "next", "0x10", "9" * 30, "9007199254740992", "٣", "%00"])
def test_a_cursor_that_cannot_be_meant_is_refused(service: Service, done: dict[str, Any], value: str) -> None:
    answer = service.request("GET", f"/v1/tasks/{done['id']}/events", params={"after": value})
    found = error(answer, 400)
    assert (found["param"], found["code"]) == ("after", "invalid_cursor")


@pytest.mark.parametrize("value", ["0", "-5", "", "all"])
def test_a_limit_that_cannot_be_meant_is_refused(service: Service, done: dict[str, Any], value: str) -> None:
    answer = service.request("GET", f"/v1/tasks/{done['id']}/events", params={"limit": value})
    assert error(answer, 400)["param"] == "limit"


def test_every_state_event_carries_the_response_as_it_then_was(service: Service, done: dict[str, Any]) -> None:
    states = {event["type"]: event for event in service.events(done["id"]) if "response" in event}
    statuses = {kind: event["response"]["status"] for kind, event in states.items()}
    statuses.pop("response.loading", None)
    assert statuses == {
        "response.created": "queued",
        "response.queued": "queued",
        "response.in_progress": "in_progress",
        "response.completed": "completed",
    }
    assert {event["response"]["id"] for event in states.values()} == {done["response_id"]}
    assert states["response.created"]["response"]["output"] == []
    assert states["response.created"]["response"]["usage"] is None
    assert states["response.queued"]["attempt"] == states["response.in_progress"]["attempt"] == 1
    assert states["response.completed"]["response"]["completed_at"] == done["finished_at"]
