"""Recover what an earlier service left unfinished, for those who start its processes by hand."""

from typing import Any

from django.core.management.base import CommandParser

from lmsp_site.management.base import ServiceCommand
from tasks_app import recovery
from tasks_app.management.exclusive import hold_the_data_directory


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
        hold_the_data_directory(
            workers_advice="Stop them first; for the tasks of a worker that has died alone there is --sweep."
        )
        went = recovery.recover_all()
        return {"tasks": went.total(), **{str(status): count for status, count in sorted(went.items()) if count}}
