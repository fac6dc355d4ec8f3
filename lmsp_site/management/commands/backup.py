"""A copy of the database while the service runs."""

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from lmsp_site import backup
from lmsp_site.management.base import ServiceCommand
from tasks_app import audit


class Command(ServiceCommand):
    """``backup FILE``: everything that the service knows, in one file; exit status 1 where the audit finds a fault."""

    help = (
        "Copy the database into FILE while tasks run, and verify the copy. It holds every task, client, setting and "
        "snapshot. It does not hold the model files, nor the secret key, without which people sign in anew."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the file, and ``--force``."""
        super().add_arguments(parser)
        parser.add_argument("file", type=Path)
        parser.add_argument("--force", action="store_true", help="replace FILE, once the new copy is verified")

    def run(self, **options: Any) -> dict[str, Any]:
        """Copy, verify, and give the copy its name."""
        started = time.monotonic()
        file: Path = options["file"].absolute()
        self._check_target(file, force=options["force"])
        progress = _Progress()
        try:
            with backup.draft_beside(file) as draft:
                backup.copy(settings.LMSP.database, draft, progress.tell)
                progress.say("verifying")
                backup.verify(draft)
                findings = audit.audit(draft)
                size = draft.stat().st_size
                backup.publish(draft, file, replace=options["force"])
        except backup.CannotCopy as error:
            raise CommandError(str(error)) from error
        except FileExistsError as error:
            raise CommandError(f"{file} was made meanwhile; nothing was replaced.") from error
        finally:
            progress.end()
        self.exit_status = 1 if findings["violations"] else 0
        return {"file": str(file), "bytes": size, "seconds": round(time.monotonic() - started, 3), **findings}

    def _check_target(self, file: Path, *, force: bool) -> None:
        if file.is_dir() or not file.parent.is_dir():
            raise CommandError(f"{file} cannot be written: name a file in a directory that there is.")
        if file.exists() and file.samefile(settings.LMSP.database):
            raise CommandError(f"{file} is the database itself.")
        if file.exists() and not force:
            raise CommandError(f"{file} is there already; --force replaces it.")
        database: Path = settings.LMSP.database
        log = database.with_name(f"{database.name}-wal")
        needed = sum(part.stat().st_size for part in (database, log) if part.exists())
        if file.parent.stat().st_dev == database.stat().st_dev:
            # A backup must not take the room that running tasks need to finish.
            needed += settings.LMSP.min_free_bytes
        if (free := shutil.disk_usage(file.parent).free) < needed:
            raise CommandError(
                f"There is no room for {file}: it needs {needed >> 20} MB, and {free >> 20} MB are free."
            )

    def describe(self, answer: dict[str, Any]) -> None:
        """Say what is in it."""
        for violation in answer["violations"]:
            self.stderr.write(audit.told(violation))
        self.stdout.write(
            f"{answer['file']}: {answer['tasks']} tasks, {answer['events']} events, {answer['bytes']:,} bytes in "
            f"{answer['seconds']:.1f} s"
        )
        if answer["violations"]:
            self.stdout.write("The copy is whole and is kept; what it was taken of breaks the rules named above.")


class _Progress:
    """One line on a terminal that says how far the copy is; nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def tell(self, done: int, total: int) -> None:
        """Show bytes done of bytes in all."""
        self.say(f"copying {100 * done // max(total, 1):3d} % of {total >> 20:,} MB")

    def say(self, text: str) -> None:
        """Show `text` in place of what was shown before."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def end(self) -> None:
        """Leave the line empty."""
        self.say("")
