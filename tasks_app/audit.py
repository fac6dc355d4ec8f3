"""The audit of a whole database against the invariants of chapter 11.

It shares no code with what it audits: its own connection, its own SQL, its own reading of the log, in one read
transaction, so that a service may go on writing meanwhile.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

_TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "completed",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_STATE = {
    "response.queued": "queued",
    "response.loading": "loading",
    "response.in_progress": "running",
    "response.cancelling": "cancelling",
    **_TERMINAL,
}
_DELTAS = {
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
}
_GUARDS = {
    "unfinished_tasks_are_not_deleted": "tasks",
    "events_of_unfinished_tasks_are_not_changed": "task_events",
    "events_of_unfinished_tasks_are_not_deleted": "task_events",
    "audit_entries_are_not_changed": "audit_log",
    "audit_entries_are_not_deleted": "audit_log",
    "audit_entries_are_not_replaced": "audit_log",
}
_JOURNAL_PAIR_BYTES = 6

Violation = dict[str, Any]


@dataclass
class _Log:
    """What one pass over the events of a task has found."""

    count: int = 0
    highest: int = -1
    gaps: list[int] = field(default_factory=list)
    state: str | None = None
    terminals: int = 0
    after_terminal: int = 0
    texts: dict[int, list[str]] = field(default_factory=dict)
    opened: list[int] = field(default_factory=list)
    terminal_type: str | None = None
    response: dict[str, Any] = field(default_factory=dict)
    stored: list[str] | None = None
    first_types: list[str] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)

    def read(self, number: int, kind: str, data: str) -> None:
        if number != self.count:
            self.gaps.append(number)
        self.count += 1
        self.highest = max(self.highest, number)
        if self.terminals:
            self.after_terminal += 1
        if len(self.first_types) < 2:
            self.first_types.append(kind)
        try:
            self._apply(kind, data)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.unreadable.append(number)

    def _apply(self, kind: str, data: str) -> None:
        if kind in _DELTAS:
            fields = json.loads(data)
            self.texts.setdefault(fields.get("output_index", 0), []).append(fields["delta"])
        elif kind == "response.output_item.added":
            self.opened.append(json.loads(data).get("output_index", 0))
        elif kind == "response.queued":
            self.texts, self.opened = {}, []
        if kind in _STATE:
            self.state = _STATE[kind]
        if kind in _TERMINAL:
            self.terminals += 1
            self.terminal_type = kind
            self.response = json.loads(data)["response"]
            self.stored = [_text(item) for item in self.response["output"]]


def audit(database: Path) -> dict[str, Any]:
    """Return ``{"tasks", "events", "violations"}``; a violation names its rule, the task and what is wrong."""
    # Autocommit mode, so that BEGIN is deferred: a snapshot for reading, which keeps no writer waiting.
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        tasks, events, violations = 0, 0, list(_guards(connection))
        violations += [*_strays(connection), *_purged(connection)]
        for task_id, log, row in _tasks(connection):
            tasks += 1
            events += log.count
            violations += [{"rule": rule, "task": task_id, "detail": detail} for rule, detail in _judge(log, row)]
        connection.execute("ROLLBACK")
    return {"tasks": tasks, "events": events, "violations": violations}


def told(violation: Violation) -> str:
    """Return a violation as a line for a person."""
    return f"{violation['rule']}: {violation['task'] or 'database'}: {violation['detail']}"


def _tasks(connection: sqlite3.Connection) -> Iterator[tuple[str, _Log, tuple[Any, ...]]]:
    """Yield every task with its log, both in the order of the ids, in bounded memory."""
    rows = connection.execute(
        "SELECT t.id, t.status, t.last_sequence_number, t.output_tokens, t.finished_at, t.incomplete_reason, r.id,"
        "  (SELECT sum(length(j.tokens)) FROM task_journal j WHERE j.snapshot_id = t.id),"
        "  (SELECT count(*) FROM task_snapshots s WHERE s.task_id = t.id)"
        " FROM tasks t LEFT JOIN responses r ON r.task_id = t.id WHERE t.purged_at IS NULL ORDER BY t.id"
    )
    events = connection.execute(
        "SELECT task_id, sequence_number, type, data FROM task_events ORDER BY task_id, sequence_number"
    )
    logs = groupby(events, key=lambda event: event[0])
    owner, entries = next(logs, (None, iter(())))
    for task_id, *row in rows:
        while owner is not None and owner < task_id:
            # Of no task at all, which _strays finds, or of one that is being removed piece by piece.
            owner, entries = next(logs, (None, iter(())))
        log = _Log()
        if owner == task_id:
            for _, number, kind, data in entries:
                log.read(number, kind, data)
            owner, entries = next(logs, (None, iter(())))
        yield task_id, log, tuple(row)


def _judge(log: _Log, row: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    status, last, output_tokens, finished_at, reason, response_id, journal_bytes, snapshots = row
    finished = status in _TERMINAL.values()
    if log.gaps:
        yield "sequence_without_gap", f"number {log.gaps[0]} stands where another should"
    if log.highest != last:
        yield "sequence_number_of_task", f"the task counts to {last}, its log to {log.highest}"
    if log.state != status:
        yield "status_agrees_with_log", f"the task is {status}, its last state event says {log.state}"
    if finished and log.terminals != 1:
        yield "one_terminal_event", f"a finished task with {log.terminals} terminal events"
    if not finished and log.terminals:
        yield "one_terminal_event", f"a task that is {status} has a terminal event"
    if log.after_terminal:
        yield "nothing_after_terminal_event", f"{log.after_terminal} events follow the terminal one"
    if log.first_types != ["response.created", "response.queued"]:
        yield "born_with_two_events", f"the log begins with {log.first_types}"
    if log.unreadable:
        yield "events_are_readable", f"event {log.unreadable[0]} cannot be read"
    if finished is (finished_at is None):
        yield "finished_at_agrees_with_status", f"status {status}, finished_at {finished_at}"
    if log.opened != list(range(len(log.opened))):
        yield "items_are_opened_once", f"items are opened in the order {log.opened}"
    said = {place: text for place, texts in log.texts.items() if (text := "".join(texts))}
    if log.stored is not None and said != {place: text for place, text in enumerate(log.stored) if text}:
        yield "deltas_equal_text", "the joined deltas differ from the text of the terminal event"
    if response_id is None:
        yield "task_has_response", "the task has no response"
    elif log.terminal_type is not None:
        stored = log.response.get("id"), log.response.get("status"), log.response.get("incomplete_details")
        if stored != (response_id, log.terminal_type.removeprefix("response."), {"reason": reason} if reason else None):
            yield "terminal_event_stores_response", f"the terminal event holds another response: {stored}"
    if snapshots and (journal_bytes or 0) != output_tokens * _JOURNAL_PAIR_BYTES:
        yield "journal_agrees_with_count", f"{journal_bytes or 0} bytes of journal for {output_tokens} tokens"


def _text(item: dict[str, Any]) -> str:
    """Return what the deltas of an item have to add up to."""
    if item["type"] == "function_call":
        return str(item["arguments"])
    return "".join(part["text"] for part in item["summary" if item["type"] == "reasoning" else "content"])


def _strays(connection: sqlite3.Connection) -> Iterator[Violation]:
    for table, key, rule in (
        ("task_events", "task_id", "event_has_task"),
        ("responses", "task_id", "response_has_task"),
        ("task_snapshots", "task_id", "snapshot_has_task"),
    ):
        query = f"SELECT DISTINCT {key} FROM {table} WHERE {key} NOT IN (SELECT id FROM tasks)"  # noqa: S608
        for (task_id,) in connection.execute(query):
            yield {"rule": rule, "task": task_id, "detail": f"a row of {table} belongs to no task"}


def _purged(connection: sqlite3.Connection) -> Iterator[Violation]:
    """Yield tasks that are being removed and may not be (R5)."""
    query = "SELECT id, status FROM tasks WHERE purged_at IS NOT NULL AND status NOT IN (?, ?, ?)"
    for task_id, status in connection.execute(query, sorted(set(_TERMINAL.values()))):
        yield {"rule": "unfinished_task_is_kept", "task": task_id, "detail": f"it is {status} and being removed"}


def _guards(connection: sqlite3.Connection) -> Iterator[Violation]:
    present = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"))
    for name, table in _GUARDS.items():
        if present.get(name) != table:
            yield {"rule": "guards_are_installed", "task": None, "detail": f"the trigger {name} is missing"}
