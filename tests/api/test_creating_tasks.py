"""POST /v1/tasks."""

import pytest

from tests.api.bodies import body
from tests.service import MODEL, Service

SHAPE = {
    "id": str,
    "object": str,
    "status": str,
    "response_id": str,
    "model": str,
    "on_restart": str,
    "priority": str,
    "attempt": int,
    "position": int,
    "progress": type(None),
    "error": type(None),
    "usage": dict,
    "last_sequence_number": int,
    "metadata": dict,
    "created_at": int,
    "started_at": type(None),
    "finished_at": type(None),
    "expires_at": type(None),
}


def test_a_task_is_answered_with_202_its_address_and_the_whole_object(service: Service) -> None:
    request = body(metadata={"order": "17"}, priority="batch", on_restart="retry")
    answer = service.request("POST", "/v1/tasks", json=request)
    assert answer.status_code == 202
    task = answer.json()
    assert answer.headers["location"] == f"/v1/tasks/{task['id']}"
    assert "idempotent-replayed" not in answer.headers
    assert {name: type(value) for name, value in task.items()} == SHAPE
    assert task["id"].removeprefix("task_") == task["response_id"].removeprefix("resp_")
    assert task["id"].startswith("task_")
    assert (
        task
        | {
            "object": "task",
            "status": "queued",
            "model": MODEL,
            "on_restart": "retry",
            "priority": "batch",
            "attempt": 0,
            "last_sequence_number": 1,
            "metadata": {"order": "17"},
        }
        == task
    )
    assert task["usage"]["input_tokens"] == task["usage"]["total_tokens"] > 0


def test_what_a_request_leaves_out_has_the_documented_default(service: Service) -> None:
    task = service.request("POST", "/v1/tasks", json={"model": MODEL, "input": "Hi"}).json()
    service.request("POST", f"/v1/tasks/{task['id']}/cancel")
    assert (task["on_restart"], task["priority"], task["metadata"]) == ("resume", "normal", {})


def test_null_is_the_same_as_leaving_out(service: Service) -> None:
    names = (
        *("instructions", "temperature", "top_p", "presence_penalty", "frequency_penalty", "max_output_tokens"),
        *("seed", "stop", "metadata", "on_restart", "priority", "store", "stream", "background"),
        *("previous_response_id", "tools", "text", "top_logprobs", "truncation"),
    )
    answer = service.request("POST", "/v1/tasks", json={"model": MODEL, "input": "Hi", **dict.fromkeys(names)})
    assert answer.status_code == 202, answer.text
    service.request("POST", f"{answer.headers['location']}/cancel")


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi"}],
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        [{"role": "user", "content": [{"type": "input_text", "text": "H"}, {"type": "input_text", "text": "i"}]}],
    ],
)
def test_a_text_and_message_items_that_say_the_same_are_the_same_prompt(service: Service, messages: object) -> None:
    as_text = service.request("POST", "/v1/tasks", json=body("Hi")).json()
    as_items = service.request("POST", "/v1/tasks", json=body() | {"input": messages}).json()
    said = [service.finished(task["id"]) for task in (as_text, as_items)]
    assert said[0]["output_text"] == said[1]["output_text"] != ""
    assert said[0]["usage"] == said[1]["usage"]


def test_instructions_and_the_whole_conversation_reach_the_model(service: Service) -> None:
    conversation = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello!"}]},
        {"role": "user", "content": "Hi"},
    ]
    prompts = [
        service.request("POST", "/v1/tasks", json=request).json()["usage"]["input_tokens"]
        for request in (
            body("Hi"),
            body("Hi", instructions="Answer in one word, and that in French."),
            body() | {"input": conversation},
            body() | {"input": conversation[:1]},
        )
    ]
    assert prompts[0] == prompts[3]
    assert prompts[0] < prompts[2]
    assert prompts[0] != prompts[1]


def test_a_body_in_chunks_is_a_body(service: Service) -> None:
    pieces = iter([b'{"model": "', MODEL.encode(), b'", "input": "Hi",', b' "max_output_tokens": 4}'])
    headers = {"Content-Type": "application/json"}
    answer = service.request("POST", "/v1/tasks", content=pieces, headers=headers)
    assert answer.status_code == 202, answer.text


def test_the_stop_text_ends_the_output_and_is_not_part_of_it(service: Service) -> None:
    whole = service.finished(service.create("Hi", max_output_tokens=6)["id"])["output_text"]
    stop = whole.split()[1]
    stopped = service.finished(service.create("Hi", max_output_tokens=6, stop=[stop, "never said"])["id"])
    assert stopped["output_text"] == whole.partition(stop)[0]
    assert stopped["incomplete_details"] is None


def test_the_same_seed_says_the_same(service: Service) -> None:
    request = {"temperature": 1.5, "max_output_tokens": 6}
    texts = [service.finished(service.create("Hi", seed=seed, **request)["id"])["output_text"] for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]
