"""Pair a client from the command line."""

from datetime import timedelta
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser
from django.utils import timezone

from clients_app import scopes
from clients_app.managing import create
from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand

_MOST_DAYS = 36_500


class Command(ServiceCommand):
    """``create_client NAME --scopes a,b --expires-in DAYS``: the token is printed this once."""

    help = "Pair a client and print its token, which is shown this once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the client's name and scopes."""
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument(
            "--scopes", default=",".join(scopes.ALL), help="comma-separated; all of them by default: %(default)s"
        )

        parser.add_argument(
            "--expires-in", type=float, metavar="DAYS", help="how long the client is let in; without it, for ever"
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
        days = options["expires_in"]
        if days is not None and not 0 < days <= _MOST_DAYS:
            raise CommandError(f"--expires-in takes days: more than 0, and {_MOST_DAYS} at most.")
        expires_at = None if days is None else timezone.now() + timedelta(days=days)
        client, token = create(name, granted, Actor.command_line(), expires_at)
        return {
            "client_id": client.id,
            "token": token,
            "scopes": granted,
            "expires_at": int(expires_at.timestamp()) if expires_at else None,
        }
