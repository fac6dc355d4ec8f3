"""Give a client a new token from the command line."""

from datetime import timedelta
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app import lookup, managing
from clients_app.models import LONGEST_OVERLAP, CannotRotate
from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand


class Command(ServiceCommand):
    """``rotate_token CLIENT --overlap SECONDS``: the new token is printed this once."""

    help = (
        "Give a client a new token, which is shown this once. The one it has stays good until the overlap ends; "
        "one before that ends at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the client and the overlap."""
        super().add_arguments(parser)
        parser.add_argument("client", help="id or name of a client")
        parser.add_argument(
            "--overlap", type=int, default=3600, metavar="SECONDS", help="0 ends the old token at once (%(default)s)"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        """Rotate."""
        longest = int(LONGEST_OVERLAP.total_seconds())
        if not 0 <= options["overlap"] <= longest:
            raise CommandError(f"--overlap takes seconds, from 0 to {longest}.")
        try:
            client = lookup.find(options["client"])
            token = managing.rotate(client, timedelta(seconds=options["overlap"]), Actor.command_line())
        except (lookup.UnknownClient, CannotRotate) as refusal:
            raise CommandError(str(refusal)) from refusal
        assert client.previous_token_until is not None
        return {
            "client_id": client.id,
            "token": token,
            "previous_token_until": int(client.previous_token_until.timestamp()),
        }
