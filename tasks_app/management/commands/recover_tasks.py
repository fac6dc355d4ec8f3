"""Recover what an earlier service left unfinished, for those who start its processes by hand."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from lmsp_site import supervisor
from lmsp_site.management.base import ServiceCommand
from tasks_app import ownership, recovery


class Command(ServiceCommand):
    """``recover_tasks``: what ``serve`` does before it starts anything, and with ``--sweep`` while it runs."""

    help = "Apply the restart policy of every unfinished task (R6). Refused while a service or a worker runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--sweep``."""
        super().add_arguments(parser)
        parser.add_argument(
            "--sweep",
            action="store_true",
            help="recover only tasks whose worker has died alone; for a service that runs",
        )

    def run(self, **options: Any) -> dict[str, Any]:
        """Recover, and return how many tasks there were and where they went."""
        if options["sweep"]:
            return {"tasks": recovery.sweep()}
        self._hold_the_data_directory()
        went = recovery.recover_all()
        return {"tasks": went.total(), **{str(status): count for status, count in sorted(went.items()) if count}}

    def _hold_the_data_directory(self) -> None:
        """Keep every ``serve`` out until this process ends, and see that nobody else is in.

        A task without an owner is left over only then: beside a worker it may be claimed at any moment.
        """
        try:
            supervisor.hold(settings.LMSP.run_dir / "serve.lock")
        except supervisor.AlreadyServedError as refusal:
            raise CommandError(str(refusal)) from None
        if workers := ownership.living():
            raise CommandError(
                f"{len(workers)} workers run on this data directory. Stop them first; for the tasks of a worker that"
                " has died alone there is --sweep."
            )
