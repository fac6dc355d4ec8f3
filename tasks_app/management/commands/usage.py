"""What clients have had, on the command line."""

import sys
from datetime import date, timedelta
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app import lookup
from clients_app.models import Client
from lmsp_site.management.base import ServiceCommand
from tasks_app import usage
from tasks_app.console import colours, tables
from tasks_app.console.tables import Column


class Command(ServiceCommand):
    """``usage``: tokens, tasks and time by client, model and day."""

    help = "Show what clients have had: tokens in and out, tasks and time by client, model and day (UTC), newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the client and the days."""
        super().add_arguments(parser)
        parser.add_argument("--client", help="id or name of a client, also the id of one that was deleted")
        parser.add_argument("--from", dest="since", type=date.fromisoformat, metavar="YYYY-MM-DD", help="30 days ago")
        parser.add_argument("--to", dest="until", type=date.fromisoformat, metavar="YYYY-MM-DD", help="today")

    def run(self, **options: Any) -> dict[str, Any]:
        """Look it up."""
        until = options["until"] or usage.today()
        since = options["since"] or until - timedelta(days=29)
        rows = usage.listed(since, until, client_id=_client_id(options["client"]), by_model=True)
        names = dict(Client.objects.values_list("pk", "name"))
        return {
            "usage": [
                {"client": {"id": row["client_id"], "name": names.get(row["client_id"])}, **usage.usage_object(row)}
                for row in rows
            ]
        }

    def describe(self, answer: dict[str, Any]) -> None:
        """Show a table."""
        rows = answer["usage"]
        if not rows:
            self.stdout.write("No usage in these days.")
            return

        def column(title: str, cells: list[str], **options: Any) -> Column:
            return Column(title, list(map(tables.tame, cells)), **options)

        table = [
            column("DAY", [row["day"] for row in rows]),
            column("CLIENT", [row["client"]["name"] or row["client"]["id"] for row in rows], least=8),
            column("MODEL", [row["model"] for row in rows], least=8, rank=2),
            column("TASKS", [str(row["tasks"]) for row in rows], right=True),
            column("TOKENS IN", [str(row["input_tokens"]) for row in rows], right=True),
            column("OUT", [str(row["output_tokens"]) for row in rows], right=True),
            column("SECONDS", [f"{row['run_seconds']:.1f}" for row in rows], rank=1, right=True),
        ]
        style = colours.chosen(self.style)
        for line in tables.lines(table, tables.width_of(sys.stdout), style.MIGRATE_LABEL):
            self.stdout.write(line)


def _client_id(text: str | None) -> str | None:
    if text is None or text.startswith("client_"):
        return text
    try:
        return lookup.find(text).pk
    except lookup.UnknownClient as refusal:
        raise CommandError(str(refusal)) from refusal
