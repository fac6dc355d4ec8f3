"""Revoke a client from the command line."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app import lookup, managing
from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand
from tasks_app import revoked


class Command(ServiceCommand):
    """``revoke_client CLIENT``: its token is refused, its streams end, its unfinished tasks are cancelled."""

    help = (
        "Revoke a client, for good: its token is refused at once, what it has open ends within 5 seconds, and what it "
        "left unfinished is cancelled."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the client."""
        super().add_arguments(parser)
        parser.add_argument("client", help="id or name of a client")

    def run(self, **options: Any) -> dict[str, Any]:
        """Revoke it; to do so once more changes nothing."""
        try:
            client = lookup.find(options["client"])
        except lookup.UnknownClient as refusal:
            raise CommandError(str(refusal)) from refusal
        managing.revoke(client, Actor.command_line())
        assert client.revoked_at is not None
        return {
            "client_id": client.id,
            "revoked_at": int(client.revoked_at.timestamp()),
            "tasks_cancelled": revoked.cancel_all(),
        }
