"""/v1/clients/me: what a client can know of itself, and do to itself; any token will do, since nobody else is meant."""

from datetime import date, timedelta
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clients_app import authentication, managing
from clients_app.authentication import caller
from clients_app.models import LONGEST_OVERLAP, CannotRotate, Client
from lmsp_site.audit_log import Actor, peer
from lmsp_site.errors import InvalidRequest
from lmsp_site.fields import StrictInteger, read
from lmsp_site.views import json_body
from tasks_app import pages, quotas, revoked, usage
from tasks_app.responses import unix

_OVERLAP_SECONDS = 3600
_DAYS = 30
_MOST_DAYS = 366
_PARAMETERS = {"from", "to", "model", "group_by"}


class RotateRequest(serializers.Serializer[Any]):
    """The body of POST /v1/clients/me/rotate; there need be none."""

    overlap_seconds = StrictInteger(
        allow_null=True, min_value=0, max_value=int(LONGEST_OVERLAP.total_seconds()), default=None
    )


def client_object(client: Client) -> dict[str, Any]:
    """Return the API's object of a client, with what it has used of its quotas."""
    return {
        "id": client.id,
        "object": "client",
        "name": client.name,
        "scopes": client.scopes,
        "created_at": unix(client.created_at),
        "expires_at": unix(client.expires_at),
        "last_used_at": unix(client.last_used_at),
        "previous_token_until": unix(client.previous_token_until),
        "quotas": quotas.overview(client),
    }


class OwnClient(APIView):
    """GET and DELETE /v1/clients/me."""

    def get(self, request: Request) -> Response:
        """Show the client's record."""
        # The call itself may have been the first one for a minute.
        return Response(client_object(Client.objects.get(pk=caller(request).pk)))

    def delete(self, request: Request) -> Response:
        """Revoke the client, for good, as its operator can; what is left unfinished is cancelled."""
        client = caller(request)
        managing.revoke(client, _actor(request))
        # Where there is more, the sweep goes on.
        revoked.cancel_some()
        return Response(status=204)


class OwnToken(APIView):
    """POST /v1/clients/me/rotate."""

    def post(self, request: Request) -> Response:
        """Give the client a new token, which is shown this once."""
        client = caller(request)
        fields = read(RotateRequest, json_body(request) if request.body else {})
        seconds = fields["overlap_seconds"]
        overlap = timedelta(seconds=_OVERLAP_SECONDS if seconds is None else seconds)
        try:
            token = managing.rotate(client, overlap, _actor(request))
        except CannotRotate:
            # Revoked, or expired, in this moment.
            raise authentication.unknown_token() from None
        return Response(
            {
                "access_token": token,
                "token_type": "Bearer",
                "scope": " ".join(client.scopes),
                "client_id": client.id,
                "previous_token_until": unix(client.previous_token_until),
            },
            headers={"Cache-Control": "no-store"},
        )


class OwnUsage(APIView):
    """GET /v1/clients/me/usage."""

    def get(self, request: Request) -> Response:
        """List what the client has had, each day an entry, or each day and model: the newest day first."""
        parameters = request.query_params
        pages.refuse_others(parameters, _PARAMETERS)
        group_by = parameters.get("group_by", "day")
        if group_by not in ("day", "model"):
            raise InvalidRequest("group_by must be day or model.", param="group_by", code="invalid_value")
        until = _day(parameters.get("to"), "to") or usage.today()
        since = _day(parameters.get("from"), "from") or _before(until)
        if not 0 <= (until - since).days < _MOST_DAYS:
            raise InvalidRequest(
                f"from must be a day before to, or the same, and both within {_MOST_DAYS} days.",
                param="from",
                code="invalid_value",
            )
        rows = usage.listed(
            since,
            until,
            client_id=caller(request).pk,
            by_model=group_by == "model",
            model=parameters.get("model"),
        )
        data = [usage.usage_object(row) for row in rows]
        return Response({"object": "list", "data": data, "first_id": None, "last_id": None, "has_more": False})


def _day(text: str | None, name: str) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text) if len(text) == 10 else _not_a_day(name)
    except ValueError:
        return _not_a_day(name)


def _not_a_day(name: str) -> date:
    raise InvalidRequest(f"{name} must be a day, such as 2030-12-31.", param=name, code="invalid_value") from None


def _before(until: date) -> date:
    try:
        return until - timedelta(days=_DAYS - 1)
    except OverflowError:
        return date.min


def _actor(request: Request) -> Actor:
    return Actor.client(caller(request).pk, peer(request._request))
