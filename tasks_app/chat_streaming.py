"""POST /v1/chat/completions: a thin face on the path that every response takes."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from lmsp_site.asgi_http import Receive, Scope, Send
from lmsp_site.errors import ProtocolError
from tasks_app import streaming
from tasks_app.chat_completions import Chunks, completion, failure
from tasks_app.chat_requests import ChatRequest, named_as_sent
from tasks_app.event_log import encode
from tasks_app.streaming import Answer, Entries, Face


async def _frames(fields: dict[str, Any], entries: Entries) -> AsyncIterator[bytes]:
    options = fields["stream_options"] or {}
    chunks = Chunks(with_usage=bool(options.get("include_usage")))
    async with aclosing(entries):
        async for entry in entries:
            if entry is None:
                yield streaming.PING
                continue
            for chunk in chunks.of(entry):
                yield f"data: {encode(chunk)}\n\n".encode()
    yield streaming.DONE


def _answer(response: dict[str, Any]) -> Answer:
    if error := failure(response):
        return Answer(error.status, error.body(), error.headers)
    return Answer(200, completion(response))


_CHAT = Face("POST /v1/chat/completions", ChatRequest, _frames, _answer)


async def _create(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        await streaming.create(_CHAT, scope, receive, send)
    except ProtocolError as error:
        raise named_as_sent(error) from None


create_completion = streaming.app(_create)
