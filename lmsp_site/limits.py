"""What is refused before any application sees it, for plain calls, streams and websockets alike."""

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from lmsp_site.asgi_http import App, CallerGone, Message, Receive, Scope, Send, header, read_body, send_error
from lmsp_site.errors import Forbidden, InvalidRequest, PayloadTooLarge, ProtocolError

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Limits:
    """Checks the host a caller names, a socket's origin, and the length of the body, announced or sent in chunks."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or refuse it."""
        if scope["type"] in ("http", "websocket") and (refusal := _refusal(scope)):
            if scope["type"] == "http":
                await send_error(send, refusal)
            else:
                await receive()
                await send({"type": "websocket.close"})
            return
        if scope["type"] == "http" and header(scope, b"transfer-encoding"):
            try:
                scope, receive = await _measured(scope, receive)
            except PayloadTooLarge as error:
                await send_error(send, error)
                return
            except CallerGone:
                return
        await self._app(scope, receive, send)


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


def _refusal(scope: Scope) -> ProtocolError | None:
    # A page on the web whose name was made to point here (DNS rebinding) still sends its own name.
    domain, _ = split_domain_port(header(scope, b"host") or "")
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return InvalidRequest("This service is not known by that host name.", code="invalid_host")
    if scope["type"] == "websocket" and not _may_open(header(scope, b"origin"), header(scope, b"host") or ""):
        return Forbidden("Pages of this origin may not open sockets here.", code="origin_not_allowed")
    length = header(scope, b"content-length") or "0"
    if length.isdigit() and int(length) > settings.LMSP.max_body_bytes:
        return PayloadTooLarge(f"The body is larger than {settings.LMSP.max_body_bytes} bytes.")
    return None


def _may_open(origin: str | None, host: str) -> bool:
    """Tell whether a page of `origin` may open sockets; what is no browser sends none.

    Browsers let any page open a socket anywhere, and send along what they know of the user.
    """
    if origin is None or origin.lower() in {allowed.lower() for allowed in settings.LMSP.allowed_origins}:
        return True
    scheme, found, address = origin.lower().partition("://")
    # By its address alone: a proxy in front may have taken the encryption off.
    port = _DEFAULT_PORTS.get(scheme, "")
    return bool(found) and address.removesuffix(port) == host.lower().removesuffix(port)
