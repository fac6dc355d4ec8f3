"""Deny a pairing from the command line."""

from typing import Any

from clients_app.management.commands._deciding import DecisionCommand
from clients_app.pairing import deciding
from clients_app.pairing.models import Pairing
from lmsp_site.audit_log import Actor


class Command(DecisionCommand):
    """``deny_client CODE``: the program gets no token."""

    help = "Deny the program that shows this code."

    def decide(self, pairing: Pairing, options: dict[str, Any]) -> None:
        """Deny it."""
        deciding.deny(pairing, Actor.command_line())
