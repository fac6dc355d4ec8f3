"""Calls that wait: event streams and foreground responses, as ASGI apps in front of Django's handler.

They use the same credential check, serializers and submission as the API views. Beside the work they watch the
caller, so that one who hangs up is noticed at once.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings

from clients_app import authentication
from clients_app.models import Client
from lmsp_site import response_headers
from lmsp_site.asgi_http import (
    App,
    CallerGone,
    Receive,
    Scope,
    Send,
    Withdrawn,
    header,
    nonnegative,
    query,
    read_json,
    send_error,
    send_json,
    send_stream,
)
from lmsp_site.database_threads import reads, writes
from lmsp_site.errors import InvalidRequest, to_protocol
from tasks_app import callers, event_log, idempotency, lifecycle, lookup, responses, retention, serializers, submission
from tasks_app.event_log import Entry
from tasks_app.models import Task
from tasks_app.states import TASK_STREAM_ONLY
from tasks_app.stream import tail
from tasks_app.submission import Accepted

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"

Entries = AsyncGenerator[Entry | None]


class Answer(NamedTuple):
    """What a caller who has waited is told."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Face:
    """How one address asks for a response, and shows it.

    Attributes:
        endpoint: what an idempotency key is bound to.
        request: reads the body.
        frames: makes the stream, from the request's fields and the entries of the response's log.
        answer: makes the answer of a synchronous call from the response that has ended.
    """

    endpoint: str
    request: type[serializers.ResponseRequest]
    frames: Callable[[dict[str, Any], Entries], AsyncIterator[bytes]]
    answer: Callable[[dict[str, Any]], Answer]


def app(handler: Callable[[Scope, Receive, Send], Awaitable[None]]) -> App:
    """Answer errors in the envelope, as the API views do, and end quietly with a caller that has gone."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await handler(scope, receive, send)
        except Withdrawn as withdrawn:
            await send_error(send, withdrawn.error)
        except CallerGone:
            pass
        except Exception as error:  # noqa: BLE001 - the outermost frame of a request
            await send_error(send, to_protocol(error))

    return answered


def _authorize(scope: Scope) -> Client:
    client = authentication.authenticate(header(scope, b"authorization"))
    response_headers.add(scope, client.quota_headers)
    authentication.require(client, scope["method"], scope["path"])
    return client


async def task_frames(task_id: str, after: int) -> AsyncIterator[bytes]:
    """Yield a task's events after `after` as server-sent events whose ids are the sequence numbers."""
    async with aclosing(tail.follow(task_id, after)) as pages:
        async for page in pages:
            for entry in page:
                yield _frame(entry, numbered=True)
            if not page:
                yield PING
    yield DONE


async def response_entries(task_id: str, after: int = -1, kept: Callable[[], dict[str, Any]] | None = None) -> Entries:
    """Yield the entries that Open Responses knows one by one, and ``None`` now and then while there are none.

    Where the log ends without a terminal event, because another caller has read it away, `kept` returns the result.
    """
    ended = kept is None
    async with aclosing(tail.follow(task_id, after)) as pages:
        async for page in pages:
            for entry in page:
                after, ended = entry.sequence_number, ended or entry.is_terminal
                if entry.type not in TASK_STREAM_ONLY:
                    yield entry
            if not page:
                yield None
    if kept is not None and not ended:
        yield _terminal_entry(await reads.run(kept), after + 1)


async def response_frames(entries: Entries) -> AsyncIterator[bytes]:
    """Yield the events of a response without ids; their numbers keep the gaps of those that are left out."""
    async with aclosing(entries):
        async for entry in entries:
            yield PING if entry is None else _frame(entry, numbered=False)
    yield DONE


def _frame(entry: Entry, *, numbered: bool) -> bytes:
    number = f"id: {entry.sequence_number}\n" if numbered else ""
    return f"{number}event: {entry.type}\ndata: {entry.to_json()}\n\n".encode()


async def _task_events(scope: Scope, receive: Receive, send: Send) -> None:
    """GET /v1/tasks/{id}/events with ``Accept: text/event-stream``."""
    cursor, name = header(scope, b"last-event-id"), "Last-Event-ID"
    if cursor is None:
        cursor, name = query(scope).get("after"), "after"

    def find() -> tuple[Client, Task]:
        client = _authorize(scope)
        return client, lookup.task(client, scope["path_params"]["task_id"])

    client, task = await reads.run(find)
    after = -1 if cursor is None else nonnegative(cursor, name)
    await callers.stream(client, scope, receive, send, task_frames(task.id, after))


async def _replay_response(scope: Scope, receive: Receive, send: Send) -> None:
    """GET /v1/responses/{id}?stream=true: replay the stream and follow it."""
    cursor = query(scope).get("starting_after")

    def find() -> tuple[Client, Task]:
        client = _authorize(scope)
        return client, lookup.task_of_response(client, scope["path_params"]["response_id"])

    client, task = await reads.run(find)
    after = -1 if cursor is None else nonnegative(cursor, "starting_after")
    await callers.stream(client, scope, receive, send, response_frames(response_entries(task.id, after)))


async def create(face: Face, scope: Scope, receive: Receive, send: Send) -> None:
    """Create a response: synchronous, streamed or in the background; every one of them is a task."""
    client = await reads.run(_authorize, scope)
    body = await read_json(scope, receive, settings.LMSP.max_body_bytes)
    fields, claim, accepted = await writes.run(_accept, face, client, header(scope, b"idempotency-key"), body)
    headers = {"Idempotent-Replayed": "true"} if accepted.replayed else {}
    task = accepted.task
    kept = partial(_kept, claim)
    if fields["background"] and not fields["stream"]:
        answer = at_birth(task) if task and not accepted.replayed else await reads.run(kept)
        await send_json(send, 202, answer, {"Location": f"/v1/responses/{answer['id']}", **headers})
        return
    try:
        if task is None:
            # Purged since; the key has kept the result.
            result = await reads.run(kept)
            if fields["stream"]:
                await send_stream(send, face.frames(fields, _kept_entries(result)), headers)
            else:
                await _send_answer(send, face.answer(result), headers)
        elif fields["stream"]:
            frames = face.frames(fields, response_entries(task.id, kept=kept))
            await callers.stream(client, scope, receive, send, frames, headers)
        else:
            await callers.attended(client, scope, receive, _wait_until_finished(task.id))
            await _send_answer(send, face.answer(await reads.run(_result, task.id, kept)), headers)
    except CallerGone:
        if task:
            await leave(task)
        raise
    if task:
        await read_away(task)


async def leave(task: Task) -> None:
    """Cancel the task of a caller who has hung up, unless somebody else may come for it."""
    if task.ends_with_caller:
        await writes.run(lifecycle.cancel, task.id)


async def read_away(task: Task) -> None:
    """Delete a finished task whose caller has the result, where it was not to be stored."""
    if not task.response.store:
        await writes.run(retention.forget, task.id)


def _accept(
    face: Face, client: Client, key: str | None, body: dict[str, Any]
) -> tuple[dict[str, Any], idempotency.Claim | None, Accepted]:
    claim = idempotency.Claim.of(client, face.endpoint, key, body)
    fields = serializers.read(face.request, body)
    accepted = submission.submit(client, fields, foreground=not fields["background"], key=claim, answer=at_birth)
    return fields, claim, accepted


def at_birth(task: Task) -> dict[str, Any]:
    """Return the response of a new task; a worker may have it by now, and its log may have grown."""
    return responses.build(responses.Subject.of(task))


async def _send_answer(send: Send, answer: Answer, headers: dict[str, str]) -> None:
    await send_json(send, answer.status, answer.body, {**headers, **answer.headers})


async def _wait_until_finished(task_id: str) -> None:
    # The first two events are there already; of the rest only the end counts.
    async with aclosing(tail.follow(task_id)) as pages:
        async for _ in pages:
            pass


def _result(task_id: str, kept: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the response of a task that has ended: by one look, since another caller may read it away meanwhile."""
    end = event_log.last(task_id)
    response: dict[str, Any] = end.fields()["response"] if end and end.is_terminal else kept()
    return response


def _kept(claim: idempotency.Claim | None) -> dict[str, Any]:
    """Return the result that a key has kept of a task that may be gone."""
    row = idempotency.find(claim) if claim else None
    if row is None or row.result_body is None:
        raise InvalidRequest("The task of this Idempotency-Key was deleted before it had a result; use a new key.")
    body: dict[str, Any] = row.result_body
    return body


async def _kept_entries(result: dict[str, Any]) -> Entries:
    """Yield the terminal event alone: the log it stood in has been purged."""
    yield _terminal_entry(result, 0)


def _terminal_entry(result: dict[str, Any], number: int) -> Entry:
    return Entry(number, f"response.{result['status']}", json.dumps({"response": result}, ensure_ascii=False))


_RESPONSES = Face(
    endpoint="POST /v1/responses",
    request=serializers.ResponseRequest,
    frames=lambda _fields, entries: response_frames(entries),
    answer=lambda response: Answer(200, response),
)

task_events = app(_task_events)
replay_response = app(_replay_response)
create_response = app(partial(create, _RESPONSES))
