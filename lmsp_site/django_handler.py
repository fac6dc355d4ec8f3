"""Django for ASGI, with a whole request in one thread.

Django's own handler gives each request a new thread, and so a new connection to the database; it changes between that
thread and the event loop for its signals, for every middleware that is synchronous and for the end of the request, and
has a task of its own look for a caller who hangs up. That is more work than the request itself.
"""

from contextvars import copy_context
from io import BytesIO
from typing import Any, NamedTuple

from django.conf import settings
from django.core import signals
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.urls import set_script_prefix

from lmsp_site.asgi_http import CallerGone, Receive, Scope, Send, read_body
from lmsp_site.database_threads import reads, writes

_SAFE = {"GET", "HEAD", "OPTIONS"}
_API = "/v1/"


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Handler(ASGIHandler):
    """Runs a request from its first signal to its last in a thread that keeps its connection."""

    def __init__(self) -> None:
        # Not ASGIHandler's, which adapts the middlewares to the event loop.
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._api = _Api()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]
        """Answer one request. What streams is no view of Django's: an answer is sent whole."""
        try:
            body = await read_body(receive, settings.LMSP.max_body_bytes)
        except CallerGone:
            return
        threads = reads if scope["method"] in _SAFE else writes
        # What is activated for one request, a language or a time zone, stays with it.
        answer = await threads.run(copy_context().run, self._answer, scope, body)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _answer(self, scope: Scope, body: bytes) -> _Answer:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, BytesIO(body))
        handler = self._api if scope["path"].startswith(_API) else self
        response: Any = refusal if request is None else handler.get_response(request)
        try:
            # A file is read here, too, and not on the event loop.
            content = b"".join(response) if response.streaming else response.content
            response.setdefault("Content-Length", str(len(content)))
            headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
            cookies = [(b"Set-Cookie", morsel.OutputString().encode("ascii")) for morsel in response.cookies.values()]
            return _Answer(response.status_code, headers + cookies, content)
        finally:
            # This is the signal of the request's end as well.
            response.close()


class _Api(BaseHandler):
    """Calls of the API: the middlewares are for pages, with their sessions, forms and messages."""

    def __init__(self) -> None:
        # In the place of load_middleware: none.
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._middleware_chain = convert_exception_to_response(self._get_response)  # type: ignore[attr-defined]
