"""Which names callers may address this service by, against DNS rebinding: for calls, streams and sockets alike."""

from collections.abc import Iterable

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from lmsp_site.asgi_http import App, Receive, Scope, Send, headers_named, refuse
from lmsp_site.errors import InvalidRequest, unknown_host


class KnownHosts:
    """Refuses callers who name another host than loopback, ``LMSP_HOST`` or one of ``LMSP_ALLOWED_HOSTS``."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or refuse it."""
        if scope["type"] in ("http", "websocket") and (refusal := unknown(scope["headers"])):
            await refuse(scope, receive, send, refusal)
            return
        await self._app(scope, receive, send)


def unknown(headers: Iterable[tuple[bytes, bytes]]) -> InvalidRequest | None:
    """Return the error that a caller gets for the host in these headers, if any.

    A page on the web whose name was made to point here still sends its own name. Of two names, others might look at the
    one that is not looked at here.
    """
    named = headers_named(headers, b"host")
    domain, _ = split_domain_port(named[0] if len(named) == 1 else "")
    return None if domain and validate_host(domain, settings.ALLOWED_HOSTS) else unknown_host()
