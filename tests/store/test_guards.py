"""The database itself refuses what must not be."""

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, models

from clients_app.models import Client
from tasks_app import guards, idempotency, retention, snapshot
from tasks_app.models import Task, TaskEvent
from tasks_app.states import FINISHED, UNFINISHED, Status
from tests.store.tasks import new_task, put, running, say


def _execute(statement: str, *values: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


@pytest.mark.parametrize("status", sorted(UNFINISHED))
def test_R5_an_unfinished_task_cannot_be_deleted(client: Client, status: Status) -> None:
    task = put(new_task(client), status)
    with pytest.raises(IntegrityError, match="unfinished task"):
        _execute("DELETE FROM tasks WHERE id = %s", task.id)
    with pytest.raises(IntegrityError, match="unfinished task"):
        _execute("DELETE FROM task_events WHERE task_id = %s", task.id)
    with pytest.raises(IntegrityError, match="unfinished task"):
        _execute("UPDATE task_events SET data = '{}' WHERE task_id = %s", task.id)
    assert not retention.forget(task.id)


@pytest.mark.parametrize("status", sorted(FINISHED))
def test_a_finished_task_is_deleted_with_all_that_is_its(client: Client, status: Status) -> None:
    task = put(new_task(client), status)
    assert retention.forget(task.id)
    assert not TaskEvent.objects.filter(task_id=task.id).exists()
    assert not retention.forget(task.id)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tasks SET status = 'paused'",
        "UPDATE tasks SET on_restart = 'shrug'",
        "UPDATE tasks SET last_sequence_number = -2",
        "INSERT INTO task_events (task_id, sequence_number, type, data)"
        " SELECT task_id, sequence_number, type, data FROM task_events LIMIT 1",
    ],
)
def test_constraints_refuse_rows_that_mean_nothing(client: Client, statement: str) -> None:
    new_task(client)
    with pytest.raises(IntegrityError):
        _execute(statement)


def test_a_key_belongs_to_one_request(client: Client) -> None:
    """Whoever finds no key and stores it is alone, whatever else looks for one."""
    claim = idempotency.Claim(client, "POST /v1/tasks", "key", "digest")
    idempotency.store(claim, new_task(client), status=202, body={})
    with pytest.raises(IntegrityError):
        idempotency.store(claim, new_task(client), status=202, body={})


def test_a_token_is_journalled_once(client: Client) -> None:
    task, run = running(client)
    say(run, "once")
    with pytest.raises(IntegrityError):
        snapshot.append(task.id, 0, [100], [1])


@pytest.mark.parametrize("model", [Task, TaskEvent])
def test_a_migration_that_rebuilds_a_table_keeps_the_guards(client: Client, model: type[models.Model]) -> None:
    task = new_task(client)
    field: Any = model._meta.get_field("type" if model is TaskEvent else "model")
    wider = field.clone()
    wider.max_length = 500
    wider.set_attributes_from_name(field.name)
    wider.model = model
    with connection.schema_editor() as editor:
        guards.drop(None, editor)
        editor.alter_field(model, field, wider, strict=True)
        guards.install(None, editor)
    assert guards.missing() == []
    with pytest.raises(IntegrityError, match="unfinished task"):
        _execute("DELETE FROM tasks WHERE id = %s", task.id)


def test_a_missing_guard_is_reported(client: Client) -> None:
    _execute(f"DROP TRIGGER {guards.NAMES[0]}")
    assert guards.missing() == [guards.NAMES[0]]


def test_auto_vacuum_wal_and_full_synchronisation_are_on(database: Path) -> None:
    expected = {"auto_vacuum": 2, "journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    with connection.cursor() as cursor:
        for name, value in expected.items():
            assert cursor.execute(f"PRAGMA {name}").fetchone()[0] == value
