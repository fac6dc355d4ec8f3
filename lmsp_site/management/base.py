"""What every command of this project has in common."""

import json
import sys
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from lmsp_site import data_dir


class ServiceCommand(BaseCommand):
    """A command that works on an empty data directory and can answer with one JSON object.

    A subclass writes ``run``, which returns that object, and ``describe``, which says it to a person; it sets
    ``exit_status`` where its answer is not the good one.
    """

    requires_migrations_checks = False
    # Nothing that an operator sets can make a check fail, and they load every page of the admin: a second per command.
    requires_system_checks = ()
    prepares_database = True
    exit_status = 0

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--json``; a subclass adds its own after calling this."""
        parser.add_argument("--json", action="store_true", help="print exactly one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Bring a new database up to date, run the command and print its answer."""
        if self.prepares_database:
            prepare_database()
        answer = self.run(**options)
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.describe(answer)
        self.finish()

    def finish(self) -> None:
        """Tell by the exit status how it came out."""
        if self.exit_status:
            sys.exit(self.exit_status)

    def run(self, **options: Any) -> dict[str, Any]:
        """Do the work and return what ``--json`` prints."""
        raise NotImplementedError

    def describe(self, answer: dict[str, Any]) -> None:
        """Tell a person what ``run`` returned."""
        for name, value in answer.items():
            self.stdout.write(f"{name}: {value}")


def prepare_database() -> None:
    """Create the tables of an empty database; refuse to touch one of another version.

    Raises:
        CommandError: there are tables, but not those of this version.
    """
    # Two first commands at once: one makes the tables, the other finds them made.
    with data_dir.exclusive(settings.LMSP.run_dir / "migrate.lock"):
        _migrate_if_empty()


def _migrate_if_empty() -> None:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return
    if executor.loader.applied_migrations:
        raise CommandError(
            "The database belongs to another version of the service. Run `manage.py migrate` while the "
            "service is stopped, or start it once with `manage.py serve`."
        )
    call_command("migrate", verbosity=0, interactive=False)
