"""Who the caller is behind a proxy: what ``X-Forwarded-*`` says counts from ``LMSP_TRUSTED_PROXIES`` alone."""

import ipaddress
from collections.abc import Iterator

from django.conf import settings

from lmsp_site.asgi_http import App, Receive, Scope, Send, headers_named

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORWARDING = (b"x-forwarded-", b"forwarded", b"x-real-ip")
_SECURE = {"http": "https", "websocket": "wss"}


class TrustedProxies:
    """Puts the caller's address and scheme into the scope; whoever it comes from, nothing behind sees the headers."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        if scope["type"] in ("http", "websocket"):
            scope = _seen_through(scope)
        await self._app(scope, receive, send)


def _seen_through(scope: Scope) -> Scope:
    headers = scope["headers"]
    kept = [(name, value) for name, value in headers if not name.startswith(_FORWARDING)]
    caller = _address((scope.get("client") or [""])[0])
    if len(kept) == len(headers) or caller is None or not _is_trusted(caller):
        return {**scope, "headers": kept}
    client = scope["client"]
    # From the nearest one on; what stands before the first that is not trusted was written by who knows whom.
    for further in _listed_last_first(headers, b"x-forwarded-for"):
        if (address := _address(further)) is None:
            break
        client = [str(address), 0]
        if not _is_trusted(address):
            break
    scheme = next(_listed_last_first(headers, b"x-forwarded-proto"), "").lower()
    seen = {**scope, "headers": kept, "client": client}
    return {**seen, "scheme": _SECURE[scope["type"]]} if scheme in ("https", "wss") else seen


def _listed_last_first(headers: list[tuple[bytes, bytes]], name: bytes) -> Iterator[str]:
    entries = ",".join(headers_named(headers, name)).split(",")
    return (entry.strip() for entry in reversed(entries))


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # What a socket for both families calls a caller over IPv4.
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(address: Address) -> bool:
    return any(address in network for network in settings.LMSP.trusted_proxies)
