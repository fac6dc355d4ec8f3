"""How long a body may be, announced or sent in chunks, for plain calls and streams alike.

``lmsp_site.daphne_server`` asks the same of a body while it comes; this stands before the applications under any
server.
"""

from django.conf import settings

from lmsp_site.asgi_http import App, CallerGone, Message, Receive, Scope, Send, header, read_body, send_error
from lmsp_site.errors import PayloadTooLarge


def too_large() -> PayloadTooLarge:
    """Return the error of a body that is too long."""
    return PayloadTooLarge(f"The body is larger than {settings.LMSP.max_body_bytes} bytes.")


class Limits:
    """Refuses bodies that are too long, before anything reads them."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or refuse it."""
        if scope["type"] == "http":
            try:
                _check_announced(scope)
                if header(scope, b"transfer-encoding"):
                    scope, receive = await _measured(scope, receive)
            except PayloadTooLarge as error:
                await send_error(send, error)
                return
            except CallerGone:
                return
        await self._app(scope, receive, send)


def _check_announced(scope: Scope) -> None:
    length = header(scope, b"content-length") or "0"
    if length.isdigit() and int(length) > settings.LMSP.max_body_bytes:
        raise too_large()


async def _measured(scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
    """Give a call without ``Content-Length`` the one that it has: without it Django would see no body at all.

    Nothing is lost by reading the body here: the web server has it whole before it calls.
    """
    body: bytes | None = await read_body(receive, settings.LMSP.max_body_bytes)

    async def replay() -> Message:
        nonlocal body
        if body is None:
            return await receive()
        message, body = {"type": "http.request", "body": body, "more_body": False}, None
        return message

    length = (b"content-length", str(len(body or b"")).encode())
    return {**scope, "headers": [*scope["headers"], length]}, replay
