"""Django for ASGI, with a whole request in one thread.

Django's own handler gives each request a new thread, and so a new connection to the database, and changes between that
thread and the event loop for every middleware that is synchronous: more work than the request itself.
"""

from contextvars import copy_context
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.base import BaseHandler
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase

from lmsp_site.database_threads import reads, writes

_SAFE = {"GET", "HEAD", "OPTIONS"}


class Handler(ASGIHandler):
    """Runs a request from its first middleware to its last in a thread that keeps its connection."""

    def __init__(self) -> None:
        # Not ASGIHandler's, which adapts the middlewares to the event loop.
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        # Without ASGIHandler's context, which would start a thread for it.
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Have the request answered."""
        threads = reads if request.method in _SAFE else writes
        # What is activated for one request, a language or a time zone, stays with it.
        response: HttpResponseBase = await threads.run(copy_context().run, self.get_response, request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        return response
