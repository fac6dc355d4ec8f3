"""TABLE client_storage: the bytes that are stored for each client, added up by the database itself.

What counts are the inputs of its tasks and their responses, as JSON: what the client can read again. Logs and snapshots
take several times as much on the disk. ``tasks.stored_bytes`` is a task's share: a trigger writes it with the input,
and the end of the task adds the response. It is taken off with the task, whoever deletes that.

``guards.drop`` and ``guards.install`` take these triggers along.
"""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from lmsp_site.triggers import Triggers

_SUMS = Triggers(
    {
        "inputs_are_measured": """
            AFTER INSERT ON task_inputs
            BEGIN
                UPDATE tasks SET stored_bytes = coalesce(stored_bytes, 0) + length(CAST(NEW.items AS BLOB))
                WHERE id = NEW.task_id;
            END
        """,
        "stored_bytes_are_added_up": """
            AFTER UPDATE OF stored_bytes ON tasks WHEN NEW.stored_bytes IS NOT OLD.stored_bytes
            BEGIN
                INSERT INTO client_storage (client_id, bytes)
                VALUES (NEW.client_id, coalesce(NEW.stored_bytes, 0) - coalesce(OLD.stored_bytes, 0))
                ON CONFLICT (client_id) DO UPDATE SET bytes = client_storage.bytes + excluded.bytes;
            END
        """,
        "stored_bytes_go_with_their_task": """
            AFTER DELETE ON tasks WHEN OLD.stored_bytes IS NOT NULL
            BEGIN
                UPDATE client_storage SET bytes = bytes - OLD.stored_bytes WHERE client_id = OLD.client_id;
            END
        """,
    }
)

drop = _SUMS.drop


def install(apps: object, editor: BaseDatabaseSchemaEditor) -> None:
    """Create every trigger that is missing; a migration operation. Before there is the table, it does nothing."""
    if "client_storage" in editor.connection.introspection.table_names():
        _SUMS.install(apps, editor)
