"""Section 3: every event a response's stream can have, and every end it can come to, is as Open Responses has it."""

import time
from typing import Any

import pytest

from tasks_app.states import TASK_STREAM_ONLY, EventType
from tests.api.bodies import STORY, TOO_LONG, body
from tests.conformance import open_responses
from tests.service import Service, eventually
from tests.stream import sse

ENDS = {
    "completed": "response.completed",
    "completed by a call": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled while it waited": "response.cancelled",
    "cancelled while it ran": "response.cancelled",
}
# The demo model does not reason: `tests/crash/test_tool_calls.py` has one that does.
_OF_REASONING = {kind for kind in EventType if "reasoning" in kind}
WAYS = pytest.mark.parametrize("way", ENDS)


def replayed(service: Service, response_id: str, **cursor: int) -> list[dict[str, Any]]:
    """Return the events of a response's stream, followed to its end."""
    with service.http() as http:
        return sse.events(sse.read(http, f"/v1/responses/{response_id}", params={"stream": "true", **cursor}))


@pytest.fixture(scope="module")
def responses(service: Service) -> dict[str, str]:
    """The id of a response for each way to end."""

    def create(**fields: Any) -> dict[str, Any]:
        request = body(**{"text": STORY, "max_output_tokens": 400, "background": True, **fields})
        created: dict[str, Any] = service.request("POST", "/v1/responses", json=request).json()
        return created

    service.settle()
    made = {
        "failed": create(expires_at=int(time.time()) + 3600),
        "cancelled while it ran": create(),
        "busy": create(),
        "busy too": create(),
    }
    for response in made.values():
        eventually(lambda: service.task(response["lmsp"]["task_id"])["output_text"], 60)  # noqa: B023
    made["cancelled while it waited"] = create(text="Hi")
    for way in ("cancelled while it waited", "cancelled while it ran", "busy", "busy too"):
        service.request("POST", f"/v1/responses/{made[way]['id']}/cancel")
    # However slow this machine is, it is now that its deadline comes.
    failing = made["failed"]["lmsp"]["task_id"]
    service.sql("UPDATE tasks SET expires_at = datetime('now') WHERE id = ?", failing)
    made["completed"] = create(text="Hi", max_output_tokens=64)
    tool = {"type": "function", "name": "now", "parameters": None}
    made["completed by a call"] = create(text="Hi", tools=[tool], tool_choice="required", parallel_tool_calls=False)
    made["incomplete"] = create(text="Hi", max_output_tokens=4)
    for response in made.values():
        service.finished(response["lmsp"]["task_id"])
    return {way: response["id"] for way, response in made.items() if way in ENDS}


@WAYS
def test_every_event_until_each_end_is_one(service: Service, responses: dict[str, str], way: str) -> None:
    events = replayed(service, responses[way])
    for event in events:
        open_responses.check_event(event)
    assert events[-1]["type"] == ENDS[way]
    response = service.request("GET", f"/v1/responses/{responses[way]}").json()
    open_responses.check_response(response)
    assert response == events[-1]["response"]
    assert (response["error"] is not None) is (way == "failed")


def test_no_event_is_left_unseen(service: Service, responses: dict[str, str]) -> None:
    seen = {event["type"] for response in responses.values() for event in replayed(service, response)}
    assert seen == set(EventType) - TASK_STREAM_ONLY - _OF_REASONING
    assert seen - {"response.cancelled"} <= open_responses.EVENTS.keys()


def test_the_rest_after_a_cursor_is_one(service: Service, responses: dict[str, str]) -> None:
    whole = replayed(service, responses["completed"])
    for event in replayed(service, responses["completed"], starting_after=whole[3]["sequence_number"]):
        open_responses.check_event(event)


def test_a_response_that_was_resumed_is_one(own_service: Service) -> None:
    request = body(STORY, background=True, max_output_tokens=40, on_restart="resume")
    response = own_service.request("POST", "/v1/responses", json=request).json()
    task_id = response["lmsp"]["task_id"]
    eventually(lambda: own_service.task(task_id)["output_text"], 60)
    own_service.kill()
    own_service.start()
    own_service.finished(task_id)
    events = replayed(own_service, response["id"])
    for event in events:
        open_responses.check_event(event)
    assert [event["exact"] for event in events if event.get("resumed")] == [True]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"temperature": 9}, 400),
        ({"input": TOO_LONG}, 400),
        ({"tools": [{"type": "web_search"}]}, 400),
        ({"model": "unknown"}, 404),
        ({"previous_response_id": "resp_unknown"}, 404),
    ],
)
def test_every_refusal_is_an_error_object(
    service: Service, fields: dict[str, Any], status: int, *, stream: bool
) -> None:
    answer = service.request("POST", "/v1/responses", json={**body(), **fields, "stream": stream})
    assert answer.status_code == status
    assert open_responses.check(status, answer.json()) == "error"


def test_what_is_listed_deleted_and_counted_is_as_the_official_api_has_it(service: Service) -> None:
    response = service.request("POST", "/v1/responses", json=body()).json()
    path = f"/v1/responses/{response['id']}"
    counted = service.request("POST", "/v1/responses/input_tokens", json={"model": response["model"], "input": "Hi"})
    answers = [
        *(service.request("GET", address) for address in (path, f"{path}/input_items", "/v1/models")),
        counted,
        service.request("DELETE", path),
        service.request("DELETE", path),
    ]
    kinds = [open_responses.check(answer.status_code, answer.json()) for answer in answers]
    assert kinds == ["response", "list", "list", "response.input_tokens", "response", "error"]
