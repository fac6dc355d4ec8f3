"""POST /v1/chat/completions: the same tasks as those of /v1/responses, seen through another face."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.bodies import CHAT, STORY, body, chat, error
from tests.api.conversations import prompt
from tests.service import Service, eventually
from tests.stream import sse

KEY = "Idempotency-Key"
REPLAYED = "idempotent-replayed"
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"word":"sea"}'}}


def complete(http: httpx.Client, request: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = http.post(CHAT, json=request, headers=headers)
    assert answer.status_code == 200, answer.text
    completion: dict[str, Any] = answer.json()
    return completion


def chunks(http: httpx.Client, request: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
    return sse.events(sse.read(http, CHAT, method="POST", json=request, headers=headers))


def said(completion: dict[str, Any]) -> str:
    text: str = completion["choices"][0]["message"]["content"]
    return text


def joined(received: Sequence[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in received for choice in chunk["choices"])


def response_of(http: httpx.Client, completion: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/v1/responses/{completion['id'].replace('chatcmpl-', 'resp_')}").json()
    return found


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def test_a_completion_shows_its_response(service: Service, http: httpx.Client) -> None:
    completion = complete(http, chat(max_tokens=64, metadata={"a": "b"}, service_tier="flex"))
    response = response_of(http, completion)
    assert response["status"] == "completed"
    usage = response["usage"]
    assert completion == {
        "id": completion["id"],
        "object": "chat.completion",
        "created": response["created_at"],
        "model": response["model"],
        "service_tier": "flex",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text_of(response), "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "metadata": {"a": "b"},
        "lmsp": response["lmsp"],
    }
    assert said(completion)
    task = service.task(response["lmsp"]["task_id"])
    assert (task["status"], task["priority"], task["metadata"]) == ("completed", "batch", {"a": "b"})


@pytest.mark.parametrize(
    ("messages", "items"),
    [
        ([{"role": "user", "content": "Hi"}], "Hi"),
        (
            [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "Rhyme."}]},
                {"role": "user", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "poem"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "No."}],
                    "refusal": None,
                    "tool_calls": None,
                },
                {"role": "assistant", "refusal": "Never."},
                {"role": "user", "content": "Please."},
            ],
            [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": "Rhyme."},
                {"role": "user", "content": "A poem"},
                {"role": "assistant", "content": "No."},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "Never."}]},
                {"role": "user", "content": "Please."},
            ],
        ),
        (
            [
                {"role": "user", "content": "What is the sea?"},
                {"role": "assistant", "content": "I look.", "tool_calls": [CALL, {**CALL, "id": "call_2"}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "water"},
                {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "salt"}]},
                {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "call_3"}]},
                {"role": "tool", "tool_call_id": "call_3", "content": "waves"},
            ],
            [
                {"role": "user", "content": "What is the sea?"},
                {"role": "assistant", "content": "I look."},
                *[
                    {"type": "function_call", "call_id": name, "name": "look_up", "arguments": '{"word":"sea"}'}
                    for name in ("call_1", "call_2")
                ],
                {"type": "function_call_output", "call_id": "call_1", "output": "water"},
                {"type": "function_call_output", "call_id": "call_2", "output": "salt"},
                {"type": "function_call", "call_id": "call_3", "name": "look_up", "arguments": '{"word":"sea"}'},
                {"type": "function_call_output", "call_id": "call_3", "output": "waves"},
            ],
        ),
    ],
)
def test_the_same_conversation_and_seed_give_the_same_text_as_a_response(
    service: Service, http: httpx.Client, messages: list[dict[str, Any]], items: Any
) -> None:
    sampled: dict[str, Any] = {"temperature": 1.2, "top_p": 0.9, "seed": 7, "frequency_penalty": 0.5}
    completion = complete(http, chat(messages, max_tokens=12, **sampled))
    request = body(max_output_tokens=12, **sampled) | {"input": items}
    response = http.post("/v1/responses", json=request).json()
    assert prompt(service, response_of(http, completion)) == prompt(service, response)
    assert said(completion) == text_of(response) != ""


def test_a_stream_says_what_the_completion_says(http: httpx.Client) -> None:
    whole = complete(http, chat(STORY, max_tokens=12))
    received = chunks(http, chat(STORY, max_tokens=12, **USAGE))
    first, *between, last, counted = received
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert joined(between) == said(whole) != ""
    assert {choice["finish_reason"] for chunk in [first, *between] for choice in chunk["choices"]} == {None}
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "length")
    assert (counted["choices"], counted["usage"]) == ([], whole["usage"])
    assert [chunk["usage"] for chunk in received[:-1]] == [None] * (len(received) - 1)
    response = response_of(http, first)
    assert first["lmsp"] == response["lmsp"]
    for name, value in {
        "object": "chat.completion.chunk",
        "created": response["created_at"],
        "id": first["id"],
    }.items():
        assert {chunk[name] for chunk in received} == {value}


def test_without_being_asked_for_usage_is_no_chunk(http: httpx.Client) -> None:
    for options in ({}, {"stream_options": None}, {"stream_options": {"include_usage": False}}):
        received = chunks(http, chat(stream=True, **options))
        assert all(chunk["choices"] and "usage" not in chunk for chunk in received)


def test_chunks_have_neither_names_nor_ids(http: httpx.Client) -> None:
    received = sse.read(http, CHAT, method="POST", json=chat(stream=True))
    assert {name for frame in received for name, _ in frame.fields} == {"data"}


@pytest.mark.parametrize("stream", [False, True])
def test_why_it_ended_is_told(http: httpx.Client, *, stream: bool) -> None:
    def ended(**fields: Any) -> tuple[str, str]:
        request = chat("Tell me a story.", temperature=1.5, seed=1, stream=stream, **fields)
        if stream:
            received = chunks(http, request)
            return joined(received), received[-1]["choices"][0]["finish_reason"]
        completion = complete(http, request)
        return said(completion), completion["choices"][0]["finish_reason"]

    text, reason = ended(max_tokens=24)
    assert reason == "length"
    end = text[5:9]
    assert ended(max_tokens=None, max_completion_tokens=24, stop=end) == (text[: text.index(end)], "stop")


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_to_be_stored_is_gone_once_it_was_read(http: httpx.Client, *, stream: bool) -> None:
    request = chat(store=False, stream=stream)
    first = chunks(http, request)[0] if stream else complete(http, request)
    eventually(lambda: http.get(f"/v1/tasks/{first['lmsp']['task_id']}").status_code == 404)


def test_a_completion_fails_at_a_restart_and_a_keyed_one_resumes(http: httpx.Client) -> None:
    plain, keyed = complete(http, chat()), complete(http, chat(), **{KEY: "chat policy"})
    assert [found["lmsp"]["on_restart"] for found in (plain, keyed)] == ["fail", "resume"]
    assert complete(http, chat(on_restart="retry"))["lmsp"]["on_restart"] == "retry"


def test_a_completion_is_replayed(http: httpx.Client) -> None:
    answers = [http.post(CHAT, json=chat(), headers={KEY: "chat"}) for _ in range(2)]
    assert [answer.headers.get(REPLAYED) for answer in answers] == [None, "true"]
    assert answers[0].content == answers[1].content
    found = error(http.post(CHAT, json=chat(seed=1), headers={KEY: "chat"}), 422)
    assert found["code"] == "idempotency_key_reused"
    # The same key elsewhere is another one.
    assert REPLAYED not in http.post("/v1/responses", json=body(), headers={KEY: "chat"}).headers


def test_a_completion_that_still_runs_is_joined_by_a_stream_of_the_same_chunks(http: httpx.Client) -> None:
    request = chat(STORY, max_tokens=40, **USAGE)
    with http.stream("POST", CHAT, json=request, headers={KEY: "chat joined"}) as first:
        arriving = sse.frames(first)
        begun = [next(arriving) for _ in range(3)]
        with http.stream("POST", CHAT, json=request, headers={KEY: "chat joined"}) as second:
            assert second.headers[REPLAYED] == "true"
            in_the_middle = list(sse.frames(second))
        whole = [*begun, *arriving]
    afterwards = sse.read(http, CHAT, method="POST", json=request, headers={KEY: "chat joined"})
    assert whole == in_the_middle == afterwards
    assert sse.events(whole)[-1]["usage"]["completion_tokens"] == 40


def test_equal_requests_at_once_are_one_task(service: Service, http: httpx.Client) -> None:
    request = chat(STORY, max_tokens=12, metadata={"key": "chats"})
    with ThreadPoolExecutor(5) as threads:
        posted = [threads.submit(http.post, CHAT, json=request, headers={KEY: "chats"}) for _ in range(5)]
    answers = [future.result() for future in posted]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert sum(REPLAYED not in answer.headers for answer in answers) == 1
    count = "SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.key') = 'chats'"
    assert service.sql(count) == [(1,)]


def test_a_key_outlives_its_purged_task(service: Service, http: httpx.Client) -> None:
    completion = complete(http, chat(), **{KEY: "chat purged"})
    received = chunks(http, chat(**USAGE), **{KEY: "chat purged stream"})
    service.settle()
    for found in (completion, received[0]):
        task_id = found["lmsp"]["task_id"]
        service.sql("UPDATE tasks SET finished_at = '2001-01-01 00:00:00' WHERE id = ?", task_id)
    assert service.manage("purge_tasks")["tasks_deleted"] == 2
    assert complete(http, chat(), **{KEY: "chat purged"}) == completion
    again = chunks(http, chat(**USAGE), **{KEY: "chat purged stream"})
    assert joined(again) == joined(received) != ""
    # Of the deltas nothing is known any more; all the rest is as it was.
    assert again[-2:] == received[-2:]
    assert {chunk["id"] for chunk in again} == {received[0]["id"]}


class Running:
    """A completion that is being generated, and what its caller gets in the end."""

    def __init__(
        self, service: Service, http: httpx.Client, threads: ThreadPoolExecutor, name: str, stream: bool
    ) -> None:
        request = chat(STORY, max_tokens=2000, stream=stream, metadata={"name": name})
        self.answer = threads.submit(http.post, CHAT, json=request, timeout=120)
        find = "SELECT id FROM tasks WHERE output_tokens > 0 AND json_extract(metadata, '$.name') = ?"
        ((self.task_id,),) = eventually(lambda: service.sql(find, name), 60, "the task generates")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_a_generation_that_fails_is_a_server_error(
    service: Service, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = Running(service, http, threads, "chat expires", stream=False)
    service.sql("UPDATE tasks SET expires_at = datetime('now') WHERE id = ?", running.task_id)
    answer = running.answer.result(60)
    found = error(answer, 500)
    assert (found["type"], found["code"]) == ("server_error", "expired")
    assert running.task_id in found["message"]
    assert answer.headers["x-should-retry"] == "false"


def test_a_generation_that_is_cancelled_is_a_conflict(
    service: Service, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = Running(service, http, threads, "chat cancelled", stream=False)
    http.post(f"/v1/tasks/{running.task_id}/cancel")
    answer = running.answer.result(60)
    assert error(answer, 409)["code"] == "response_cancelled"
    assert answer.headers["x-should-retry"] == "false"


def test_a_stream_that_is_broken_off_ends_with_the_error(
    service: Service, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = Running(service, http, threads, "chat stream cancelled", stream=True)
    http.post(f"/v1/tasks/{running.task_id}/cancel")
    frames = [block.removeprefix("data: ") for block in running.answer.result(60).text.split("\n\n") if block]
    assert frames[-1] == sse.DONE
    received = [httpx.Response(200, text=frame).json() for frame in frames[:-1]]
    assert received[-1].keys() == {"error"}
    assert received[-1]["error"]["code"] == "response_cancelled"
    assert joined(received[:-1]) == service.text_on_disk(running.task_id) != ""
    assert {chunk["choices"][0]["finish_reason"] for chunk in received[:-1]} == {None}
