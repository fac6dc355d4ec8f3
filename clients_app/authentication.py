"""The one credential check: HTTP, event streams and websockets call it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from clients_app import request_rate, scopes, tokens, usage
from clients_app.models import Client
from lmsp_site import response_headers
from lmsp_site.errors import Forbidden, ProtocolError, Unauthenticated

if TYPE_CHECKING:
    # The views import this module by way of the settings.
    from rest_framework.views import APIView

SUBPROTOCOL = "lmsp.v1"
_TOKEN_SUBPROTOCOL = "lmsp.token."  # noqa: S105 - what stands before a token


def authenticate(authorization: str | None) -> Client:
    """Return the client whose token the ``Authorization`` header carries.

    Raises:
        Unauthenticated: no header, another scheme, or a token that is unknown, replaced, expired or revoked; which of
            these is not told.
        TooManyRequests: it makes more calls than it may; this one does not count.
    """
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("Send the client's token as `Authorization: Bearer lmsp_…`.")
    token_hash = tokens.digest(token)
    client = Client.objects.admitted([token_hash]).get(token_hash) if tokens.well_formed(token) else None
    if client is None:
        raise unknown_token()
    client.presented_hash = token_hash
    usage.note(client)
    client.quota_headers = request_rate.take(client)
    return client


def require(client: Client, method: str, path: str) -> None:
    """Refuse a call to a client without the scope that it needs, before any id is looked up.

    Raises:
        Forbidden: the scope was not granted.
    """
    if error := refusal(client, method, path):
        raise error


def refusal(client: Client | None, method: str, path: str) -> ProtocolError | None:
    """Return what a call is refused with to `client`; ``None`` where it is not, the client being one that is admitted.

    This is asked at the start of each call, and again and again of those that stay open.
    """
    if client is None:
        return unknown_token()
    call = scopes.call(method, path)
    if call is None:
        return Forbidden("This call is not open to clients.", code="forbidden")
    if call.scope and not client.may(call.scope):
        return Forbidden(f"This call needs the scope {call.scope}, which this token does not carry.")
    return None


def unknown_token() -> Unauthenticated:
    """Return what every token is answered that is not good, whatever the reason."""
    return Unauthenticated("This token is not known here.")


def socket_authorization(headers: Iterable[tuple[bytes, bytes]], subprotocols: Sequence[str]) -> str | None:
    """Return the credential of a websocket as an ``Authorization`` header has it.

    Browsers can set no header there: they offer the token as one more subprotocol, ``lmsp.token.<token>``.
    """
    for name, value in headers:
        if name == b"authorization":
            return value.decode("latin-1")
    for offered in subprotocols:
        if offered.startswith(_TOKEN_SUBPROTOCOL):
            return f"Bearer {offered.removeprefix(_TOKEN_SUBPROTOCOL)}"
    return None


def select_subprotocol(subprotocols: Sequence[str]) -> str | None:
    """Return the subprotocol that the service speaks, where it was offered; never the one that is a token."""
    return SUBPROTOCOL if SUBPROTOCOL in subprotocols else None


def caller(request: Request) -> Client:
    """Return the client that ``BearerToken`` has put into a request."""
    client: object = request.auth
    assert isinstance(client, Client)
    return client


class BearerToken(BaseAuthentication):
    """``authenticate`` for Django REST framework; the client becomes ``request.auth``."""

    def authenticate(self, request: Request) -> tuple[None, Client]:
        """Check the credential of `request`."""
        client = authenticate(request.META.get("HTTP_AUTHORIZATION"))
        # A request that comes from no server, in a test, has none.
        response_headers.add(getattr(request._request, "scope", {}), client.quota_headers)
        return None, client


class HasScope(BasePermission):
    """Checks the scope that a call needs."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Let the request pass, or raise ``Forbidden`` naming the scope."""
        method = request.method or ""
        # Of an address, a verb that it has not is told; and any token may ask which it has.
        if method in view.allowed_methods and method != "OPTIONS":
            require(caller(request), method, request.path_info)
        return True
