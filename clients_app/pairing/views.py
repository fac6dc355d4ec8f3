"""POST /v1/pairing and /v1/pairing/token, the calls of a program that has no token yet."""

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clients_app.pairing import collecting, opening, user_codes
from clients_app.pairing.serializers import PairingRequest, TokenRequest
from lmsp_site.audit_log import peer
from lmsp_site.errors import PayloadTooLarge
from lmsp_site.fields import read
from lmsp_site.views import json_body

_SECRET = {"Cache-Control": "no-store"}
_MOST_BYTES = 16 << 10


def _body(request: Request) -> dict[str, Any]:
    # Whoever has no token yet must not keep the service busy with the megabytes that a conversation may have.
    if len(request.body) > _MOST_BYTES:
        raise PayloadTooLarge(f"The body is larger than {_MOST_BYTES} bytes.")
    return json_body(request)


class PairingList(APIView):
    """POST /v1/pairing."""

    authentication_classes = []
    permission_classes = []

    def post(self, request: Request) -> Response:
        """Give the program two codes: one to poll with, one to be shown to a person."""
        fields = read(PairingRequest, _body(request))
        pairing, device_code = opening.ask(fields["client_name"], fields["scopes"], peer(request))
        user_code = user_codes.shown(pairing.user_code)
        page = request.build_absolute_uri(reverse("pair"))
        answer = {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?{urlencode({'user_code': user_code})}",
            "expires_in": int((pairing.expires_at - pairing.created_at).total_seconds()),
            "interval": pairing.interval,
        }
        return Response(answer, headers=_SECRET)


class PairingToken(APIView):
    """POST /v1/pairing/token."""

    authentication_classes = []
    permission_classes = []

    def post(self, request: Request) -> Response:
        """Hand the token out, once, after a person has approved; until then say what is missing."""
        fields = read(TokenRequest, _body(request))
        client, token = collecting.collect(fields["device_code"], peer(request))
        answer = {
            "access_token": token,
            "token_type": "Bearer",
            "scope": " ".join(client.scopes),
            "client_id": client.id,
        }
        return Response(answer, headers=_SECRET)
