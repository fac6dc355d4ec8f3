"""A backup put in the place of the database."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from clients_app.models import Client
from lmsp_site import backup
from lmsp_site.management.base import ServiceCommand
from lmsp_site.models import RestartPolicy
from models_app.models import LanguageModel
from tasks_app import audit
from tasks_app.management.exclusive import hold_the_data_directory
from tasks_app.models import Task
from tasks_app.states import RECOVERY, Status

# Signed with the secret key of the service that was backed up; recovery rings for what there is to claim.
_FORGET_BELLS = "DELETE FROM django_q_ormq"
_BECOMES = {
    (Status.QUEUED, Status.QUEUED): "wait on",
    (Status.RUNNING, Status.RUNNING): "go on from their snapshots",
    (Status.LOADING, Status.QUEUED): "wait again",
    (Status.RUNNING, Status.QUEUED): "start anew",
}


class Command(ServiceCommand):
    """``restore FILE``: the database as it was at the backup. The next start recovers as after a crash."""

    help = (
        "Put a backup in the place of the database, which is kept beside it. Refused while a service or a worker runs. "
        "At its next start the service treats unfinished tasks by their policies, as after a crash."
    )

    # What is there may be damaged, or another version's: it is left alone.
    prepares_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the file, and ``--force``."""
        super().add_arguments(parser)
        parser.add_argument("file", type=Path)
        parser.add_argument("--force", action="store_true", help="replace a database that has something in it")

    def run(self, **options: Any) -> dict[str, Any]:
        """Check the backup, bring it up to date, and only then let it be the database."""
        file: Path = options["file"].absolute()
        database: Path = settings.LMSP.database
        if not file.is_file() or file.samefile(database):
            raise CommandError(f"{file} is no backup: name a file that is not the database itself.")
        hold_the_data_directory(advice="Stop it first.")
        if not options["force"] and (contents := _contents()):
            raise CommandError(f"{database} {contents}; --force replaces it and keeps it beside the new one.")
        _check_room(file, database)
        aside = database.with_name(f"{database.name}.before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        try:
            with backup.draft_beside(database) as draft:
                backup.copy(file, draft, lambda _done, _total: None)
                backup.verify(draft)
                with _connected_to(draft):
                    answer = _bring_up_to_date()
                backup.make_single(draft)
                answer |= audit.audit(draft)
                kept = backup.put_in_place(draft, database, aside)
        except (backup.CannotCopy, backup.InUse) as error:
            raise CommandError(str(error)) from error
        for checkpoint in settings.LMSP.checkpoints_dir.iterdir():
            # Of generations that this database knows nothing of, or knows less of.
            checkpoint.unlink(missing_ok=True)
        return {"file": str(file), "database": str(database), "kept": str(aside) if kept else None, **answer}

    def describe(self, answer: dict[str, Any]) -> None:
        """Say what there is now, what will become of it, and what is missing."""
        self.stdout.write(f"Restored {answer['tasks']} tasks and {answer['events']} events from {answer['file']}.")
        if answer["kept"]:
            self.stdout.write(f"The database that was there is kept: {answer['kept']}")
        if answer["migrated"]:
            self.stdout.write("The backup was an older version's, and was migrated.")
        for group in answer["unfinished"]:
            becomes = _BECOMES.get((group["status"], group["becomes"]), f"become {group['becomes']}")
            self.stdout.write(f"  {group['tasks']} {group['status']} ({group['on_restart']}): {becomes}")
        if answer["unfinished"]:
            self.stdout.write("That is what the next start makes of the unfinished tasks above.")
        for model in answer["models_missing"]:
            self.stdout.write(
                self.style.WARNING(f"Model {model['id']} is missing: models/{model['file']}, {model['digest']}")
            )
        for violation in answer["violations"]:
            self.stdout.write(self.style.ERROR(audit.told(violation)))


def _contents() -> str:
    """Say what the present database holds; nothing where it holds nothing that anybody would miss."""
    try:
        if Task._meta.db_table not in connection.introspection.table_names():
            return ""
        tasks, clients = Task.objects.count(), Client.objects.count()
    except DatabaseError as error:
        return f"cannot be read ({error})"
    finally:
        connection.close()
    return f"holds {tasks} tasks and {clients} clients" if tasks or clients else ""


def _check_room(file: Path, database: Path) -> None:
    needed, free = file.stat().st_size + settings.LMSP.min_free_bytes, shutil.disk_usage(database.parent).free
    if free < needed:
        raise CommandError(f"There is no room: {needed >> 20} MB are needed, {free >> 20} MB are free.")


@contextmanager
def _connected_to(draft: Path) -> Iterator[None]:
    """Let Django work on `draft`: whatever fails there has changed nothing."""
    connection.close()
    connection.settings_dict["NAME"] = draft
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = settings.LMSP.database


def _bring_up_to_date() -> dict[str, Any]:
    """Migrate the draft, forget what belongs to its old life, and return what a person has to know of it."""
    executor = MigrationExecutor(connection)
    applied, known = executor.loader.applied_migrations, executor.loader.disk_migrations
    if ("tasks_app", "0001_initial") not in applied:
        raise CommandError("The file is a database, but not one of this service.")
    if newer := sorted(f"{app}.{name}" for app, name in set(applied) - set(known)):
        raise CommandError(f"The backup is a newer version's: this one does not know {', '.join(newer)}.")
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_BELLS)
    return {"migrated": bool(plan), "unfinished": _unfinished(), "models_missing": list(_missing_models())}


def _unfinished() -> list[dict[str, Any]]:
    """Return how many tasks the next start finds in each state and under each policy, and where they go (R6)."""
    counted = Counter(Task.objects.unfinished().values_list("status", "on_restart").iterator())
    return [
        {
            "status": status,
            "on_restart": policy,
            "tasks": count,
            "becomes": str(RECOVERY[Status(status)][RestartPolicy(policy)]),
        }
        for (status, policy), count in sorted(counted.items())
    ]


def _missing_models() -> Iterator[dict[str, Any]]:
    for model in LanguageModel.objects.all():
        # The digest of what has the right size is compared at its next load: a large file would be read for minutes.
        stamps = model.stamps_now()
        if stamps is None or [stamp[0] for stamp in stamps] != [entry["size"] for entry in model.files]:
            yield {"id": model.id, "file": model.file, "digest": model.digest, "size_bytes": model.size_bytes}
