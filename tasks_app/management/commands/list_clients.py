"""Clients on the command line."""

import sys
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count

from clients_app.models import Client
from lmsp_site.management.base import ServiceCommand
from tasks_app.console import colours, figures, tables
from tasks_app.console.tables import Column
from tasks_app.models import Task


class Command(ServiceCommand):
    """``list_clients``: all of them, newest first."""

    help = "List the clients: what they may do, when they were last seen, and what they have left to do."

    def run(self, **options: Any) -> dict[str, Any]:
        """Look them up."""
        counted = Task.objects.unfinished().order_by().values_list("client").annotate(Count("pk"))
        unfinished: dict[str, int] = dict(counted)
        return {
            "clients": [
                {
                    "id": client.id,
                    "name": client.name,
                    "state": client.state,
                    "scopes": client.scopes,
                    "created_at": _unix(client.created_at),
                    "last_used_at": _unix(client.last_used_at),
                    "expires_at": _unix(client.expires_at),
                    "revoked_at": _unix(client.revoked_at),
                    "unfinished_tasks": unfinished.get(client.id, 0),
                }
                for client in Client.objects.order_by("-created_at", "-id")
            ]
        }

    def describe(self, answer: dict[str, Any]) -> None:
        """Show a table."""
        clients = answer["clients"]
        if not clients:
            self.stdout.write("No client.")
            return
        now = datetime.now(UTC).timestamp()

        def column(title: str, cells: list[str], **options: Any) -> Column:
            return Column(title, list(map(tables.tame, cells)), **options)

        table = [
            column("NAME", [one["name"] for one in clients], least=8),
            column("ID", [one["id"] for one in clients], least=9, keeps_end=True),
            column("STATE", [one["state"] for one in clients]),
            column("SCOPES", [" ".join(one["scopes"]) for one in clients], least=12, rank=2),
            column("AGE", [_span(one["created_at"], now) for one in clients], rank=5, right=True),
            column("LAST USED", [_span(one["last_used_at"], now, " ago") for one in clients], rank=1, right=True),
            column("EXPIRES IN", [_span(now, one["expires_at"]) for one in clients], rank=3, right=True),
            column("UNFINISHED", [str(one["unfinished_tasks"] or "") for one in clients], rank=4, right=True),
        ]
        style = colours.chosen(self.style)
        for line in tables.lines(table, tables.width_of(sys.stdout), style.MIGRATE_LABEL):
            self.stdout.write(line)


def _unix(moment: datetime | None) -> int | None:
    return int(moment.timestamp()) if moment else None


def _span(since: float | None, until: float | None, after: str = "") -> str:
    """Return a length of time; nothing where an end of it is not known."""
    if since is None or until is None:
        return ""
    return figures.span(max(0.0, until - since)) + after
