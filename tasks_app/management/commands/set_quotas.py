"""What a client may have, on the command line."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from clients_app import limits, lookup, managing
from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand
from tasks_app import quotas

_DEFAULT = "default"


class Command(ServiceCommand):
    """``set_quotas CLIENT --queued 100 …``: limits of its own; without any, what it has is shown."""

    help = (
        "Give a client limits of its own: a number, 0 for no limit, or `default` for what all clients have. Those that "
        "are not named stay as they are; what it has and has used is shown."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the client and its limits."""
        super().add_arguments(parser)
        parser.add_argument("client", help="id or name of a client")
        for name in limits.NAMES:
            parser.add_argument(_option(name), dest=name, metavar="N", help=limits.MEANING[name])

    def run(self, **options: Any) -> dict[str, Any]:
        """Set them."""
        given = {name: options[name] for name in limits.NAMES if options[name] is not None}
        try:
            client = lookup.find(options["client"])
            managing.limit(client, {name: _number(name, text) for name, text in given.items()}, Actor.command_line())
        except lookup.UnknownClient as refusal:
            raise CommandError(str(refusal)) from refusal
        # Requests are counted in the process that serves them.
        shown = {name: entry for name, entry in quotas.overview(client).items() if name != "requests_per_minute"}
        rate = limits.limit(client, "max_requests_per_minute") or None
        return {"client_id": client.id, "quotas": {**shown, "requests_per_minute": {"limit": rate}}}


def _option(name: str) -> str:
    return "--" + name.removeprefix("max_").replace("_", "-")


def _number(name: str, text: str) -> int | None:
    if text == _DEFAULT:
        return None
    most = limits.MOST[name]
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise CommandError(f"{_option(name)} takes a number up to {most}, 0 for no limit, or `{_DEFAULT}`.")
    return int(text)
