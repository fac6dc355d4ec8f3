"""POST /v1/responses in its three ways, and GET /v1/responses/{id}."""

from typing import Any

import pytest

from tests.api.bodies import STORY, body
from tests.service import MODEL, Service, eventually
from tests.stream import sse


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def test_a_synchronous_response_is_whole(service: Service) -> None:
    answer = service.request("POST", "/v1/responses", json=body("Hi", max_output_tokens=64))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    response = answer.json()
    assert (response["status"], response["error"], response["background"]) == ("completed", None, False)
    assert response["model"] == MODEL
    assert response["incomplete_details"] is None
    (message,) = response["output"]
    assert (message["type"], message["role"], message["status"]) == ("message", "assistant", "completed")
    (part,) = message["content"]
    assert part["type"] == "output_text"
    assert part["text"]
    assert response["created_at"] <= response["completed_at"]
    assert response == service.request("GET", f"/v1/responses/{response['id']}").json()


def test_a_response_belongs_to_one_task(service: Service) -> None:
    response = service.request("POST", "/v1/responses", json=body()).json()
    task = service.task(response["lmsp"]["task_id"])
    assert task["response_id"] == response["id"]
    assert task["output_text"] == text_of(response)
    assert task["usage"] == response["usage"]
    assert task["incomplete_details"] == response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["status"] == response["output"][0]["status"] == "incomplete"


def test_a_response_echoes_its_request(service: Service) -> None:
    request = body(
        "Hi",
        instructions="Be brief.",
        temperature=0.5,
        top_p=0.25,
        presence_penalty=1,
        frequency_penalty=-1.5,
        metadata={"a": "b"},
        seed=5,
    )
    response = service.request("POST", "/v1/responses", json=request).json()
    echoed = {name: value for name, value in request.items() if name not in ("input", "seed")}
    assert response | echoed == response
    assert response["lmsp"]["seed"] == 5


def test_a_foreground_task_fails_at_a_restart_and_a_keyed_one_resumes(service: Service) -> None:
    plain = service.request("POST", "/v1/responses", json=body())
    keyed = service.request("POST", "/v1/responses", json=body(), headers={"Idempotency-Key": "policy"})
    assert [answer.json()["lmsp"]["on_restart"] for answer in (plain, keyed)] == ["fail", "resume"]


def test_a_background_response_is_accepted_and_polled(service: Service) -> None:
    answer = service.request("POST", "/v1/responses", json=body(background=True))
    assert answer.status_code == 202
    response = answer.json()
    assert answer.headers["location"] == f"/v1/responses/{response['id']}"
    assert (response["status"], response["background"], response["output"]) == ("queued", True, [])

    def ended() -> dict[str, Any] | None:
        now: dict[str, Any] = service.request("GET", f"/v1/responses/{response['id']}").json()
        return None if now["status"] in ("queued", "in_progress") else now

    done = eventually(ended, 60)
    assert done is not None
    assert (done["status"], done["id"]) == ("incomplete", response["id"])
    assert text_of(done)


def test_a_streamed_response_says_what_the_stored_one_says(service: Service) -> None:
    with service.http() as http:
        received = sse.read(http, "/v1/responses", method="POST", json=body(stream=True))
        events = sse.events(received)
        stored = http.get(f"/v1/responses/{events[-1]['response']['id']}").json()
    assert events[-1]["response"] == stored
    assert "".join(event.get("delta", "") for event in events) == text_of(stored) != ""


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_is_not_to_be_stored_is_gone_once_it_was_read(service: Service, *, stream: bool) -> None:
    with service.http() as http:
        if stream:
            received = sse.read(http, "/v1/responses", method="POST", json=body(stream=True, store=False))
            response = sse.events(received)[-1]["response"]
        else:
            response = http.post("/v1/responses", json=body(store=False)).json()
        assert text_of(response)
        assert response["store"] is False
        eventually(lambda: http.get(f"/v1/responses/{response['id']}").status_code == 404)
        assert http.get(f"/v1/tasks/{response['lmsp']['task_id']}").status_code == 404
    assert service.sql("SELECT count(*) FROM task_events WHERE task_id = ?", response["lmsp"]["task_id"]) == [(0,)]


def test_a_cancelled_response_keeps_what_it_had_said(service: Service) -> None:
    request = body(STORY, max_output_tokens=300, background=True)
    response = service.request("POST", "/v1/responses", json=request).json()
    address = f"/v1/responses/{response['id']}"
    eventually(lambda: text_of(service.request("GET", address).json()), 60)
    answer = service.request("POST", f"{address}/cancel")
    assert answer.status_code == 200
    done = eventually(lambda: (now := service.request("GET", address).json())["status"] == "cancelled" and now, 60)
    assert done["output"][0]["status"] == "incomplete"
    assert text_of(done)
    assert done["completed_at"] is None
    assert done["error"] is None


@pytest.mark.parametrize("stream", ["true", "false", "1", ""])
def test_a_finished_response_is_read_with_and_without_a_stream(service: Service, stream: str) -> None:
    response = service.request("POST", "/v1/responses", json=body()).json()
    answer = service.request("GET", f"/v1/responses/{response['id']}", params={"stream": stream})
    assert answer.status_code == 200
    if stream == "true":
        assert answer.headers["content-type"].startswith("text/event-stream")
    else:
        assert answer.json() == response
