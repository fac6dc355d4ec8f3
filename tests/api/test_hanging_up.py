"""Callers that leave: whose work stops, and whose runs on."""

import json
import socket
import time
from contextlib import closing
from typing import Any

import pytest

from tests.api.bodies import CHAT, STORY, body, chat
from tests.api.engine import computes
from tests.service import Service, eventually

# A caller's leaving is seen within 0.1 s; the rest is the engine's and a busy machine's.
SOON_SECONDS = 3.0


def hang_up(service: Service, path: str, request: dict[str, Any], *, headers: str = "", abortive: bool = False) -> str:
    """Send a request, wait until its task generates, hang up, and return the task's id."""
    raw = json.dumps(request).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n{headers}\r\n"
    )
    name = request["metadata"]["name"]
    find = "SELECT id FROM tasks WHERE output_tokens > 0 AND json_extract(metadata, '$.name') = ?"
    with closing(socket.create_connection(("127.0.0.1", service.port), timeout=30)) as caller:
        if abortive:
            # Closed with a reset, as by a process that is killed with data unread.
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        caller.sendall(head.encode() + raw)
        ((task_id,),) = eventually(lambda: service.sql(find, name), 60, "the task generates")
    return str(task_id)


@pytest.mark.parametrize("abortive", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/responses", CHAT])
def test_a_foreground_caller_that_leaves_takes_the_task_along(
    service: Service, path: str, *, stream: bool, abortive: bool
) -> None:
    service.settle()
    fields = {"stream": stream, "metadata": {"name": f"{path} {stream} {abortive}"}}
    request = chat(STORY, max_tokens=1000, **fields) if path == CHAT else body(STORY, max_output_tokens=1000, **fields)
    task_id = hang_up(service, path, request, abortive=abortive)
    left = time.monotonic()
    assert service.finished(task_id)["status"] == "cancelled"
    assert time.monotonic() - left < SOON_SECONDS
    eventually(lambda: not computes(service), SOON_SECONDS)


@pytest.mark.parametrize("stream", [False, True])
def test_a_keyed_task_runs_on_so_that_the_retry_finds_it(service: Service, *, stream: bool) -> None:
    name = f"keyed {stream}"
    request = body(STORY, stream=stream, max_output_tokens=30, metadata={"name": name})
    task_id = hang_up(service, "/v1/responses", request, headers=f"Idempotency-Key: {name}\r\n")
    again = service.request("POST", "/v1/responses", json=request, headers={"Idempotency-Key": name})
    assert again.headers["idempotent-replayed"] == "true"
    assert task_id in again.text
    assert service.finished(task_id)["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_keyed_completion_runs_on_too(service: Service) -> None:
    request = chat(STORY, max_tokens=30, metadata={"name": "keyed chat"})
    task_id = hang_up(service, CHAT, request, headers="Idempotency-Key: keyed chat\r\n")
    again = service.request("POST", CHAT, json=request, headers={"Idempotency-Key": "keyed chat"})
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["lmsp"]["task_id"] == task_id
    assert again.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("fields", [{"background": True}, {"background": True, "stream": True}])
def test_a_background_response_runs_on(service: Service, fields: dict[str, Any]) -> None:
    request = body(STORY, max_output_tokens=30, metadata={"name": f"background {fields}"}, **fields)
    task_id = hang_up(service, "/v1/responses", request)
    assert service.finished(task_id)["status"] == "completed"


def test_a_task_runs_on(service: Service) -> None:
    task_id = hang_up(service, "/v1/tasks", body(STORY, max_output_tokens=30, metadata={"name": "task"}))
    assert service.finished(task_id)["status"] == "completed"


def test_half_a_request_makes_no_task(service: Service) -> None:
    raw = json.dumps(body(metadata={"name": "half"})).encode()
    head = (
        f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", service.port), timeout=30)) as caller:
        caller.sendall(head.encode() + raw[:-1])
    # A request that came after it has been answered.
    assert service.finished(service.create("Hi", max_output_tokens=1)["id"])
    assert service.sql("SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.name') = 'half'") == [(0,)]
