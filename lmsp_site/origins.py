"""What web pages of other origins may do here: nothing, unless ``LMSP_ALLOWED_ORIGINS`` names theirs.

A page may then call the API with a token (CORS), streams too, and open websockets. No answer ever allows credentials
that a browser sends by itself, and the admin is open to no other origin.
"""

from collections.abc import Iterable

from django.conf import settings

from lmsp_site.asgi_http import App, Message, Receive, Scope, Send, header, headers_named, refuse
from lmsp_site.errors import Forbidden

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_METHODS = b"GET, HEAD, POST, DELETE"
# What a page may read of an answer's headers, beside those that it may anyway.
_EXPOSED = (
    b"Idempotent-Replayed, Location, Retry-After, WWW-Authenticate, X-Should-Retry, "
    b"RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset"
)
_PREFLIGHT_SECONDS = b"600"
_CLOSED = ("/admin", "/static/")


class CrossOrigin:
    """Answers preflights and marks answers for the origins that are allowed; refuses sockets of all others."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a call that comes from a page, or from a program."""
        if scope["type"] == "websocket":
            if refusal := refused_socket(scope["headers"]):
                await refuse(scope, receive, send, refusal)
                return
        elif scope["type"] == "http" and (origin := header(scope, b"origin")) is not None:
            is_allowed = _is_allowed(origin) and not scope["path"].startswith(_CLOSED)
            is_preflight = scope["method"] == "OPTIONS" and header(scope, b"access-control-request-method") is not None
            if is_preflight and not is_allowed:
                error = Forbidden(
                    "Pages of this origin may not call this service. Its operator can name it in LMSP_ALLOWED_ORIGINS.",
                    code="origin_not_allowed",
                )
                await refuse(scope, receive, send, error)
                return
            if is_allowed:
                send = _marking(send, origin)
            if is_preflight:
                await _answer_preflight(scope, send)
                return
        await self._app(scope, receive, send)


def refused_socket(headers: Iterable[tuple[bytes, bytes]]) -> Forbidden | None:
    """Return the error that a socket gets whose page may not open it, if any; what is no browser sends no origin.

    Browsers let any page open a socket anywhere, and send along what they know of the user.
    """
    named = headers_named(headers, b"origin")
    host = "".join(headers_named(headers, b"host"))
    if all(_is_allowed(origin) or _is_own(origin, host) for origin in named):
        return None
    return Forbidden(
        "Pages of this origin may not open sockets here. The service's operator can name it in LMSP_ALLOWED_ORIGINS.",
        code="origin_not_allowed",
    )


def is_own_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a socket was opened by a page of this very service; what sends no origin was not."""
    pairs = list(headers)
    host = "".join(headers_named(pairs, b"host"))
    named = headers_named(pairs, b"origin")
    return bool(named) and all(_is_own(origin, host) for origin in named)


def _is_allowed(origin: str) -> bool:
    return origin.lower() in {allowed.lower() for allowed in settings.LMSP.allowed_origins}


def _is_own(origin: str, host: str) -> bool:
    scheme, found, address = origin.lower().partition("://")
    # By its address alone: a proxy in front may have taken the encryption off.
    port = _DEFAULT_PORTS.get(scheme, "")
    return bool(found) and address.removesuffix(port) == host.lower().removesuffix(port)


def _marking(send: Send, origin: str) -> Send:
    """Return a ``send()`` by which the browser lets a page of `origin` read the answer."""
    marks = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]

    async def marking(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *marks]}
        await send(message)

    return marking


async def _answer_preflight(scope: Scope, send: Send) -> None:
    wanted = header(scope, b"access-control-request-headers") or ""
    headers = [
        (b"access-control-allow-methods", _METHODS),
        # Official clients send a dozen of their own. None of them lets a page in: that takes a token.
        (b"access-control-allow-headers", wanted.encode("latin-1")),
        (b"access-control-max-age", _PREFLIGHT_SECONDS),
        (b"vary", b"Access-Control-Request-Headers"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
