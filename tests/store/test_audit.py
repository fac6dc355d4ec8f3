"""`check_log` finds each violation, planted by raw SQL."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clients_app.models import Client
from tasks_app import audit
from tasks_app.states import Status
from tests.store.tasks import finish, new_task, put, running, say

Plant = Callable[[sqlite3.Connection, str], object]


def _sql(statement: str) -> Plant:
    return lambda connection, task_id: connection.execute(statement, {"id": task_id})


_DELTA = "type = 'response.output_text.delta'"
_TERMINAL = "type = 'response.completed'"

PLANTED: dict[str, tuple[str, Plant]] = {
    "gap": (
        "sequence_without_gap",
        _sql("DELETE FROM task_events WHERE task_id = :id AND sequence_number = 3"),
    ),
    "counter": ("sequence_number_of_task", _sql("UPDATE tasks SET last_sequence_number = 99 WHERE id = :id")),
    "status": ("status_agrees_with_log", _sql("UPDATE tasks SET status = 'failed' WHERE id = :id")),
    "no terminal event": (
        "one_terminal_event",
        _sql("DELETE FROM task_events WHERE task_id = :id AND type = 'response.completed'"),
    ),
    "second terminal event": (
        "one_terminal_event",
        _sql(
            "INSERT INTO task_events (task_id, sequence_number, type, data) SELECT task_id, sequence_number + 1,"
            " 'response.completed', data FROM task_events WHERE task_id = :id AND type = 'response.completed'"
        ),
    ),
    "event after the end": (
        "nothing_after_terminal_event",
        _sql(
            "INSERT INTO task_events (task_id, sequence_number, type, data) SELECT id, last_sequence_number + 1,"
            """ 'response.output_text.delta', '{"output_index": 0, "delta": ""}' FROM tasks WHERE id = :id"""
        ),
    ),
    "terminal event of a running task": (
        "one_terminal_event",
        _sql("UPDATE tasks SET status = 'running', finished_at = NULL WHERE id = :id"),
    ),
    "other delta": (
        "deltas_equal_text",
        _sql(f"UPDATE task_events SET data = replace(data, 'second', 'forged') WHERE task_id = :id AND {_DELTA}"),
    ),
    "other stored text": (
        "deltas_equal_text",
        _sql(f"UPDATE task_events SET data = replace(data, 'second', 'forged') WHERE task_id = :id AND {_TERMINAL}"),
    ),
    "item opened twice": (
        "items_are_opened_once",
        _sql(
            "UPDATE task_events SET type = 'response.output_item.added'"
            " WHERE task_id = :id AND type = 'response.content_part.added'"
        ),
    ),
    "broken event": (
        "events_are_readable",
        _sql(f"UPDATE task_events SET data = '[]' WHERE task_id = :id AND {_DELTA}"),
    ),
    "other beginning": (
        "born_with_two_events",
        _sql("UPDATE task_events SET type = 'response.loading' WHERE task_id = :id AND sequence_number = 0"),
    ),
    "no response": ("task_has_response", _sql("DELETE FROM responses WHERE task_id = :id")),
    "no stored response": (
        "events_are_readable",
        _sql(f"UPDATE task_events SET data = '{{}}' WHERE task_id = :id AND {_TERMINAL}"),
    ),
    "another's response": (
        "terminal_event_stores_response",
        _sql(f"UPDATE task_events SET data = replace(data, 'resp_', 'resp_x') WHERE task_id = :id AND {_TERMINAL}"),
    ),
    "other end of the response": (
        "terminal_event_stores_response",
        _sql(f"UPDATE task_events SET type = 'response.incomplete' WHERE task_id = :id AND {_TERMINAL}"),
    ),
    "other reason": (
        "terminal_event_stores_response",
        _sql("UPDATE tasks SET incomplete_reason = 'content_filter' WHERE id = :id"),
    ),
    "response without task": (
        "response_has_task",
        _sql("UPDATE responses SET task_id = 'task_gone' WHERE task_id = :id"),
    ),
    "event without task": (
        "event_has_task",
        _sql("UPDATE task_events SET task_id = 'task_gone' WHERE task_id = :id AND sequence_number = 9"),
    ),
    "no finishing time": (
        "finished_at_agrees_with_status",
        _sql("UPDATE tasks SET finished_at = NULL WHERE id = :id"),
    ),
    "lost journal": (
        "journal_agrees_with_count",
        _sql("DELETE FROM task_journal WHERE snapshot_id = :id AND position = 0"),
    ),
    "missing guard of the audit log": (
        "guards_are_installed",
        _sql("DROP TRIGGER audit_entries_are_not_deleted"),
    ),
    "missing guard": (
        "guards_are_installed",
        _sql("DROP TRIGGER unfinished_tasks_are_not_deleted"),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(client: Client, database: Path, name: str) -> None:
    rule, plant = PLANTED[name]
    bystander = put(new_task(client), Status.COMPLETED)
    task, run = running(client)
    say(run, "first ", "second ")
    finish(run, "third")
    assert audit.audit(database)["violations"] == []
    with closing(sqlite3.connect(database)) as connection, connection:
        plant(connection, task.id)
    violations = audit.audit(database)["violations"]
    assert rule in {violation["rule"] for violation in violations}
    assert bystander.id not in {violation["task"] for violation in violations}


@pytest.mark.parametrize("status", list(Status))
def test_every_state_that_the_service_makes_is_sound(client: Client, database: Path, status: Status) -> None:
    put(new_task(client), status)
    findings = audit.audit(database)
    assert findings["violations"] == []
    assert findings["tasks"] == 1


def test_the_audit_shares_no_code_with_what_it_audits() -> None:
    imports = [line for line in Path(audit.__file__).read_text().splitlines() if line.startswith(("import ", "from "))]
    assert not [line for line in imports if "_app" in line or "lmsp" in line or "django" in line]


def test_the_audit_reads_one_moment_while_others_write(client: Client, database: Path) -> None:
    """A writer holds the lock and has written half: the audit neither waits for it nor sees it."""
    put(new_task(client), Status.COMPLETED)
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE tasks SET last_sequence_number = 99")
        assert audit.audit(database)["violations"] == []
        writer.execute("ROLLBACK")
