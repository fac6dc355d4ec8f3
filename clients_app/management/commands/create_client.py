"""Pair a client from the command line."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app import scopes
from clients_app.creating import create
from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand


class Command(ServiceCommand):
    """``create_client NAME --scopes a,b``: the token is printed this once."""

    help = "Pair a client and print its token, which is shown this once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the client's name and scopes."""
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument(
            "--scopes", default=",".join(scopes.ALL), help="comma-separated; all of them by default: %(default)s"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        """Store the client."""
        name = options["name"].strip()
        if not name or len(name) > 100:
            raise CommandError("A client's name has 1 to 100 characters.")
        try:
            granted = scopes.parse(options["scopes"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        client, token = create(name, granted, Actor.command_line())
        return {"client_id": client.id, "token": token, "scopes": granted}
