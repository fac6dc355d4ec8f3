"""The one credential check: HTTP, event streams and websockets call it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from clients_app import tokens
from clients_app.models import Client
from lmsp_site.errors import Forbidden, Unauthenticated

if TYPE_CHECKING:
    # The views import this module by way of the settings.
    from rest_framework.views import APIView

SUBPROTOCOL = "lmsp.v1"
_TOKEN_SUBPROTOCOL = "lmsp.token."  # noqa: S105 - what stands before a token


def authenticate(authorization: str | None) -> Client:
    """Return the client whose token the ``Authorization`` header carries.

    Raises:
        Unauthenticated: no header, another scheme, or a token that is unknown or revoked; which of the
            last two is not told.
    """
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("Send the client's token as `Authorization: Bearer lmsp_…`.")
    client = None
    if tokens.well_formed(token):
        client = Client.objects.filter(token_hash=tokens.digest(token), revoked_at=None).first()
    if client is None:
        raise Unauthenticated("This token is not known here.")
    return client


def require(client: Client, scope: str) -> None:
    """Refuse a client without `scope`, before any id is looked up.

    Raises:
        Forbidden: the scope was not granted.
    """
    if not client.may(scope):
        raise Forbidden(f"This call needs the scope {scope}, which this token does not carry.")


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
        return None, authenticate(request.META.get("HTTP_AUTHORIZATION"))


class HasScope(BasePermission):
    """Checks the scope that a view declares for the method in ``required_scopes``."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Let the request pass, or raise ``Forbidden`` naming the scope."""
        scopes: dict[str, str] = getattr(view, "required_scopes", {})
        # HEAD runs what GET runs.
        method = "GET" if request.method == "HEAD" else request.method
        if scope := scopes.get(method or ""):
            require(caller(request), scope)
        return True
