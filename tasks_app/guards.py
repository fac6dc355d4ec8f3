"""Triggers by which the database itself refuses what must not be, for each database vendor.

They forbid to delete an unfinished task (R5), and to change or delete the events of one, so that no admin page and
no hand-written query can. A migration that rebuilds ``tasks`` or ``task_events`` loses their triggers, and fails while
another table's trigger names the table: such a migration begins with ``drop`` and ends with ``install``.
"""

from collections.abc import Iterator

from django.db import connection
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_SQLITE = {
    "unfinished_tasks_are_not_deleted": """
        BEFORE DELETE ON tasks
        WHEN OLD.status NOT IN ('completed', 'failed', 'cancelled')
        BEGIN SELECT RAISE(ABORT, 'an unfinished task cannot be deleted'); END
    """,
    "events_of_unfinished_tasks_are_not_changed": """
        BEFORE UPDATE ON task_events
        WHEN (SELECT status FROM tasks WHERE id = OLD.task_id) NOT IN ('completed', 'failed', 'cancelled')
        BEGIN SELECT RAISE(ABORT, 'the events of an unfinished task cannot be changed'); END
    """,
    "events_of_unfinished_tasks_are_not_deleted": """
        BEFORE DELETE ON task_events
        WHEN (SELECT status FROM tasks WHERE id = OLD.task_id) NOT IN ('completed', 'failed', 'cancelled')
        BEGIN SELECT RAISE(ABORT, 'the events of an unfinished task cannot be deleted'); END
    """,
}

NAMES = tuple(_SQLITE)


def _statements(vendor: str) -> Iterator[tuple[str, str]]:
    if vendor != "sqlite":
        raise NotImplementedError(f"There are no guards for {vendor} yet; see docs/decisions.")
    yield from _SQLITE.items()


def install(_apps: object, editor: BaseDatabaseSchemaEditor) -> None:
    """Create every guard that is missing; a migration operation."""
    for name, body in _statements(editor.connection.vendor):
        editor.execute(f"CREATE TRIGGER IF NOT EXISTS {name} {body}")


def drop(_apps: object, editor: BaseDatabaseSchemaEditor) -> None:
    """Remove every guard; a migration operation, to be followed by ``install``."""
    for name, _ in _statements(editor.connection.vendor):
        editor.execute(f"DROP TRIGGER IF EXISTS {name}")


def missing() -> list[str]:
    """Return the names of guards that the database does not have."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        present = {name for (name,) in cursor.fetchall()}
    return [name for name in NAMES if name not in present]
