"""The bearer token, and what it must carry."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from clients_app import scopes
from lmsp_site.openapi.items import Schema


class Bearer(OpenApiAuthenticationExtension):
    """A client's token in the header ``Authorization``, with the scope that the call needs."""

    target_class = "clients_app.authentication.BearerToken"
    name = "bearer"

    def get_security_requirement(self, auto_schema: AutoSchema) -> dict[str, list[str]]:
        """Return the scheme with the scope of this call: OpenAPI 3.1 has such roles for every scheme."""
        call = scopes.call(auto_schema.method, auto_schema.path)
        return {self.name: [call.scope] if call and call.scope else []}

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:
        """Return the scheme; every scope there is has its meaning in it."""
        described = "\n".join(f"- `{scope}`: {scopes.MEANING[scope]}" for scope in scopes.ALL)
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "The token of a client (`POST /v1/pairing`, or `manage.py create_client`). Its scopes:\n\n"
            + described,
        }
