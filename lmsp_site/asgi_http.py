"""Plain ASGI for what bypasses Django's handler: requests read whole, answers written, callers that hang up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from lmsp_site import open_streams, strict_json
from lmsp_site.errors import InvalidRequest, PayloadTooLarge, ProtocolError
from lmsp_site.views import encode

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
T = TypeVar("T")

_JSON = [(b"content-type", b"application/json")]
_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # A proxy that gathers a stream into pages would undo it.
    (b"x-accel-buffering", b"no"),
]

_LARGE_BODY = 64 << 10


class CallerGone(Exception):
    """The caller has hung up."""


class Withdrawn(CallerGone):
    """The caller is there, but what it was let in for has been taken from it: as good as gone.

    Attributes:
        error: what it is to be told.
    """

    def __init__(self, error: ProtocolError) -> None:
        super().__init__(error.message)
        self.error = error


def header(scope: Scope, name: bytes) -> str | None:
    """Return a header of the request, or ``None``."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def headers_named(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """Return every header of that name."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def query(scope: Scope) -> dict[str, str]:
    """Return the query parameters; the last of a name counts."""
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read the request's body.

    Raises:
        PayloadTooLarge: more than `limit` bytes.
        CallerGone: the caller hung up before it was complete.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGone
        body += message.get("body", b"")
        if len(body) > limit:
            raise PayloadTooLarge(f"The body is larger than {limit} bytes.")
        if not message.get("more_body"):
            return bytes(body)


async def read_json(scope: Scope, receive: Receive, limit: int) -> dict[str, Any]:
    """Read the request's body as a JSON object, by the same rules as the API views."""
    strict_json.require_media_type(header(scope, b"content-type"))
    return await parse_json(await read_body(receive, limit))


async def parse_json(body: bytes) -> dict[str, Any]:
    """Parse a JSON object without keeping the event loop from others."""
    if len(body) < _LARGE_BODY:
        return strict_json.parse_object(body)
    # The largest take seconds, in which no stream would go on.
    return await asyncio.to_thread(strict_json.parse_object, body)


async def send_json(send: Send, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    """Answer with JSON."""
    extra = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": [*_JSON, *extra]})
    await send({"type": "http.response.body", "body": encode(body)})


async def send_error(send: Send, error: ProtocolError) -> None:
    """Answer with the error envelope."""
    await send_json(send, error.status, error.body(), error.headers)


async def refuse(scope: Scope, receive: Receive, send: Send, error: ProtocolError) -> None:
    """Answer a call with an error; a socket that was not accepted yet is closed, which refuses its handshake."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close"})
    else:
        await send_error(send, error)


async def send_stream(send: Send, frames: AsyncIterator[bytes], headers: dict[str, str] | None = None) -> None:
    """Answer with server-sent events, one write per frame."""
    extra = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_STREAM, *extra]})
    # The server keeps the headers back until something is written: the reader of a silent log would wait for them.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    with open_streams.counted(open_streams.SSE):
        async for frame in frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def unless_gone(receive: Receive, withdrawn: asyncio.Future[ProtocolError], work: Coroutine[Any, Any, T]) -> T:
    """Do `work`, and cancel it when the caller hangs up, or `withdrawn` says why it may have it no longer.

    Raises:
        CallerGone: the caller was faster.
        Withdrawn: the other was.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_gone(receive))
    first: set[asyncio.Future[Any]] = {working, leaving, withdrawn}
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Withdrawn(withdrawn.result()) if withdrawn.done() else CallerGone
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def nonnegative(text: str, name: str) -> int:
    """Read a cursor: digits and nothing else.

    Raises:
        InvalidRequest: anything but a number from 0 to 2^53-1; a bad cursor must never mean "from the start".
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= strict_json.MAX_INTEGER):
        raise InvalidRequest(f"{name} must be a sequence number, not {text[:40]!r}.", code="invalid_cursor", param=name)
    return int(text)
