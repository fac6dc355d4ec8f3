"""Triggers by which the database itself refuses what must not be, for each database vendor.

They forbid to delete an unfinished task (R5), and to change or delete the events of one, so that no admin page and
no hand-written query can. A migration that rebuilds ``tasks`` or ``task_events`` loses their triggers, and fails while
another table's trigger names the table: such a migration begins with ``drop`` and ends with ``install``.
"""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from lmsp_site.triggers import Triggers
from tasks_app import stored_sizes

_GUARDS = Triggers(
    {
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
)

NAMES = _GUARDS.names
missing = _GUARDS.missing


def install(apps: object, editor: BaseDatabaseSchemaEditor) -> None:
    """Create what is missing of these triggers, and of those that add up; a migration operation."""
    _GUARDS.install(apps, editor)
    stored_sizes.install(apps, editor)


def drop(apps: object, editor: BaseDatabaseSchemaEditor) -> None:
    """Remove every trigger of the tables; a migration operation, to be followed by ``install``."""
    stored_sizes.drop(apps, editor)
    _GUARDS.drop(apps, editor)
