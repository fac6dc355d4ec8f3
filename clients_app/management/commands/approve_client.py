"""Approve a pairing from the command line."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app import scopes
from clients_app.management.commands._deciding import DecisionCommand
from clients_app.pairing import deciding
from clients_app.pairing.models import Pairing
from lmsp_site.audit_log import Actor


class Command(DecisionCommand):
    """``approve_client CODE --scopes a,b``: the program gets its token when it asks the next time."""

    help = "Approve the program that shows this code; it fetches its token itself."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the scopes."""
        super().add_arguments(parser)
        parser.add_argument("--scopes", help="comma-separated, of those it wishes for; all of them by default")

    def decide(self, pairing: Pairing, options: dict[str, Any]) -> None:
        """Approve it."""
        try:
            granted = None if options["scopes"] is None else scopes.parse(options["scopes"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        deciding.approve(pairing, Actor.command_line(), granted)
