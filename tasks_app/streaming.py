"""Calls that wait: event streams and foreground responses, as ASGI apps in front of Django's handler.

They use the same credential check, serializers and submission as the API views. Beside the work they watch the
caller, so that one who hangs up is noticed at once.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from django.conf import settings

from clients_app import authentication, scopes
from clients_app.models import Client
from lmsp_site.asgi_http import (
    App,
    CallerGone,
    Receive,
    Scope,
    Send,
    header,
    nonnegative,
    query,
    read_json,
    send_error,
    send_json,
    send_stream,
    unless_gone,
)
from lmsp_site.errors import InvalidRequest, NotFound, to_protocol
from tasks_app import idempotency, lifecycle, lookup, responses, retention, serializers, submission
from tasks_app.event_log import Entry
from tasks_app.models import Task
from tasks_app.states import TASK_STREAM_ONLY
from tasks_app.stream import requests, tail
from tasks_app.submission import Accepted

_PING = b": ping\n\n"
_DONE = b"data: [DONE]\n\n"
_CREATE = "POST /v1/responses"


def _app(handler: Callable[[Scope, Receive, Send], Awaitable[None]]) -> App:
    """Answer errors in the envelope, as the API views do, and end quietly with a caller that has gone."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await handler(scope, receive, send)
        except CallerGone:
            pass
        except Exception as error:  # noqa: BLE001 - the outermost frame of a request
            await send_error(send, to_protocol(error))

    return app


def _authorize(scope: Scope, needed: str) -> Client:
    client = authentication.authenticate(header(scope, b"authorization"))
    authentication.require(client, needed)
    return client


async def task_frames(task_id: str, after: int) -> AsyncIterator[bytes]:
    """Yield a task's events after `after` as server-sent events whose ids are the sequence numbers."""
    async with aclosing(tail.follow(task_id, after)) as pages:
        async for page in pages:
            for entry in page:
                yield _frame(entry, numbered=True)
            if not page:
                yield _PING
    yield _DONE


async def response_entries(task_id: str, after: int = -1) -> AsyncGenerator[Entry | None]:
    """Yield the entries that Open Responses knows one by one, and ``None`` now and then while there are none."""
    async with aclosing(tail.follow(task_id, after)) as pages:
        async for page in pages:
            for entry in page:
                if entry.type not in TASK_STREAM_ONLY:
                    yield entry
            if not page:
                yield None


async def response_frames(
    task_id: str, after: int = -1, kept: Callable[[], dict[str, Any]] | None = None
) -> AsyncIterator[bytes]:
    """Yield the events that Open Responses knows, without ids; their numbers keep the gaps of the others.

    Where the log ends without a terminal event, because another caller has read it away, `kept` returns the result.
    """
    ended = kept is None
    async with aclosing(response_entries(task_id, after)) as entries:
        async for entry in entries:
            if entry is None:
                yield _PING
                continue
            after, ended = entry.sequence_number, ended or entry.is_terminal
            yield _frame(entry, numbered=False)
    if kept is not None and not ended:
        yield _terminal_frame(await requests.run(kept), after + 1)
    yield _DONE


def _frame(entry: Entry, *, numbered: bool) -> bytes:
    number = f"id: {entry.sequence_number}\n" if numbered else ""
    return f"{number}event: {entry.type}\ndata: {entry.to_json()}\n\n".encode()


async def _task_events(scope: Scope, receive: Receive, send: Send) -> None:
    """GET /v1/tasks/{id}/events with ``Accept: text/event-stream``."""
    cursor, name = header(scope, b"last-event-id"), "Last-Event-ID"
    if cursor is None:
        cursor, name = query(scope).get("after"), "after"

    def find() -> Task:
        return lookup.task(_authorize(scope, scopes.TASKS_READ), scope["path_params"]["task_id"])

    task = await requests.run(find)
    after = -1 if cursor is None else nonnegative(cursor, name)
    await unless_gone(receive, send_stream(send, task_frames(task.id, after)))


async def _replay_response(scope: Scope, receive: Receive, send: Send) -> None:
    """GET /v1/responses/{id}?stream=true: replay the stream and follow it."""
    cursor = query(scope).get("starting_after")

    def find() -> Task:
        return lookup.task_of_response(_authorize(scope, scopes.RESPONSES_WRITE), scope["path_params"]["response_id"])

    task = await requests.run(find)
    after = -1 if cursor is None else nonnegative(cursor, "starting_after")
    await unless_gone(receive, send_stream(send, response_frames(task.id, after)))


async def _create_response(scope: Scope, receive: Receive, send: Send) -> None:
    """POST /v1/responses: synchronous, streamed or in the background; every one of them is a task."""
    client = await requests.run(_authorize, scope, scopes.RESPONSES_WRITE)
    body = await read_json(scope, receive, settings.LMSP.max_body_bytes)
    fields, claim, accepted = await requests.run(_accept, client, header(scope, b"idempotency-key"), body)
    headers = {"Idempotent-Replayed": "true"} if accepted.replayed else {}
    task = accepted.task
    kept = partial(_kept, claim)
    if fields["background"] and not fields["stream"]:
        answer = at_birth(task) if task and not accepted.replayed else await requests.run(kept)
        await send_json(send, 202, answer, {"Location": f"/v1/responses/{answer['id']}", **headers})
        return
    try:
        if task is None:
            # Purged since; the key has kept the result.
            result = await requests.run(kept)
            if fields["stream"]:
                await send_stream(send, _kept_frames(result), headers)
            else:
                await send_json(send, 200, result, headers)
        elif fields["stream"]:
            await unless_gone(receive, send_stream(send, response_frames(task.id, kept=kept), headers))
        else:
            await unless_gone(receive, _wait_until_finished(task.id))
            await send_json(send, 200, await requests.run(_result, client, task.id, kept), headers)
    except CallerGone:
        if task:
            await leave(task)
        raise
    if task:
        await read_away(task)


async def leave(task: Task) -> None:
    """Cancel the task of a caller who has hung up, unless somebody else may come for it."""
    if task.ends_with_caller:
        await requests.run(lifecycle.cancel, task.id)


async def read_away(task: Task) -> None:
    """Delete a finished task whose caller has the result, where it was not to be stored."""
    if not task.response.store:
        await requests.run(retention.forget, task.id)


def _accept(
    client: Client, key: str | None, body: dict[str, Any]
) -> tuple[dict[str, Any], idempotency.Claim | None, Accepted]:
    claim = idempotency.Claim.of(client, _CREATE, key, body)
    fields = serializers.read(serializers.ResponseRequest, body)
    accepted = submission.submit(client, fields, foreground=not fields["background"], key=claim, answer=at_birth)
    return fields, claim, accepted


def at_birth(task: Task) -> dict[str, Any]:
    """Return the response of a new task; a worker may have it by now, and its log may have grown."""
    return responses.build(responses.Subject.of(task))


async def _wait_until_finished(task_id: str) -> None:
    # The first two events are there already; of the rest only the end counts.
    async with aclosing(tail.follow(task_id)) as pages:
        async for _ in pages:
            pass


def _result(client: Client, task_id: str, kept: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return responses.current(lookup.task(client, task_id))
    except NotFound:
        # It was not to be stored, and another caller with the same key has read it away.
        return kept()


def _kept(claim: idempotency.Claim | None) -> dict[str, Any]:
    """Return the result that a key has kept of a task that may be gone."""
    row = idempotency.find(claim) if claim else None
    if row is None or row.result_body is None:
        raise InvalidRequest("The task of this Idempotency-Key was deleted before it had a result; use a new key.")
    body: dict[str, Any] = row.result_body
    return body


async def _kept_frames(result: dict[str, Any]) -> AsyncIterator[bytes]:
    """Yield the terminal event alone: the log it stood in has been purged."""
    yield _terminal_frame(result, 0)
    yield _DONE


def _terminal_frame(result: dict[str, Any], number: int) -> bytes:
    entry = Entry(number, f"response.{result['status']}", json.dumps({"response": result}, ensure_ascii=False))
    return _frame(entry, numbered=False)


task_events = _app(_task_events)
replay_response = _app(_replay_response)
create_response = _app(_create_response)
