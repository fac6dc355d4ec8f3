"""Bodies of the pairing calls."""

from typing import Any

from rest_framework import serializers

from clients_app import scopes
from lmsp_site.fields import StrictChoice, StrictString

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"


class ClientName(StrictString):
    """What a program calls itself, to be read by a person who decides: one line without hidden characters."""

    def to_internal_value(self, data: Any) -> str:
        """Refuse what could be shown otherwise than it is."""
        name = super().to_internal_value(data).strip()
        if not name:
            self.fail("blank")
        if not name.isprintable():
            raise serializers.ValidationError("Must be one line of printable characters.")
        return name


class PairingRequest(serializers.Serializer[Any]):
    """The body of POST /v1/pairing."""

    client_name = ClientName(max_length=100)
    scopes = serializers.ListField(
        child=StrictChoice(scopes.ALL), allow_empty=False, max_length=len(scopes.ALL), default=lambda: list(scopes.ALL)
    )

    def validate_scopes(self, value: list[str]) -> list[str]:
        """Each once, in the order in which they are listed everywhere."""
        return [scope for scope in scopes.ALL if scope in value]


class TokenRequest(serializers.Serializer[Any]):
    """The body of POST /v1/pairing/token."""

    device_code = StrictString(max_length=200)
    grant_type = StrictChoice((GRANT_TYPE,), required=False)
