"""What the commands have in common by which a person decides about a pairing."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app.pairing import deciding
from clients_app.pairing.guesses import CannotDecide
from clients_app.pairing.models import Pairing
from lmsp_site.management.base import ServiceCommand


class DecisionCommand(ServiceCommand):
    """A command that takes a user code. A subclass writes ``decide``."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the code."""
        super().add_arguments(parser)
        parser.add_argument("code", help="what the program shows, in any case, with or without the dash")

    def run(self, **options: Any) -> dict[str, Any]:
        """Find the pairing and decide."""
        try:
            pairing = deciding.find(options["code"])
            self.decide(pairing, options)
        except CannotDecide as refusal:
            raise CommandError(str(refusal)) from refusal
        return {
            "pairing_id": pairing.id,
            "name": pairing.name,
            "status": pairing.status,
            "scopes": pairing.granted_scopes or [],
        }

    def decide(self, pairing: Pairing, options: dict[str, Any]) -> None:
        """Approve or deny it.

        Raises:
            CannotDecide: see its message.
        """
        raise NotImplementedError
