"""Headers by which browsers keep answers to themselves: on every answer, whoever made it, streams and refusals too."""

from collections.abc import Mapping

from lmsp_site.asgi_http import App, Message, Receive, Scope, Send

Headers = list[tuple[bytes, bytes]]

# Scripts and styles come from this host as files and never stand in a page; the pictures of style sheets are data.
_PAGE = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_NO_PAGE = b"default-src 'none'; frame-ancestors 'none'"
_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # Pages of other sites cannot even embed an answer; those that CORS allows read it all the same.
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_NOT_MODIFIED = 304
_ADDED = "lmsp.response_headers"


def add(scope: Scope, headers: Mapping[str, str]) -> None:
    """Have a call's answer carry more headers, whoever makes it."""
    if headers:
        scope.setdefault(_ADDED, []).extend((name.lower().encode(), value.encode()) for name, value in headers.items())


class ResponseHeaders:
    """Adds what an answer does not have by itself, and ``Secure`` to the cookies of an encrypted connection."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def completing(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = complete([*message.get("headers", []), *scope.get(_ADDED, ())], message["status"])
                if scope.get("scheme") == "https":
                    headers = [_secure(name, value) for name, value in headers]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, completing)


def complete(headers: Headers, status: int) -> Headers:
    """Return an answer's headers with those that it lacks."""
    there = {name.lower(): value for name, value in headers}
    added = list(_ALWAYS)
    # A 304 has no type, and what it says would replace what the page in the browser's cache had.
    if status != _NOT_MODIFIED:
        is_page = there.get(b"content-type", b"").lower().startswith((b"text/html", b"application/xhtml"))
        added.append((b"content-security-policy", _PAGE if is_page else _NO_PAGE))
    return [*headers, *((name, value) for name, value in added if name not in there)]


def _secure(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if name.lower() != b"set-cookie" or b"secure" in (part.strip().lower() for part in value.split(b";")):
        return name, value
    return name, value + b"; Secure"
