"""The one door by which a task changes its state: one task or many, in one transaction (R2).

A verb of ``lifecycle`` is a function from the record as it stands to the record as it shall be, with the event that
says so. The guarded UPDATE finds the record as it was read or changes nothing, takes the next sequence number and
writes the new state; event, stored response and idempotency result go in with it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection, transaction

from tasks_app import event_log, idempotency, responses, wakeup
from tasks_app.output import Output
from tasks_app.responses import Subject
from tasks_app.states import FINISHED, EventType, Status

_MOST_TRIES = 20


class Record(NamedTuple):
    """The columns that a change of state reads or writes, as the database has them."""

    id: str
    status: str
    attempt: int
    last_sequence_number: int
    output_tokens: int
    owner: str | None
    job_id: str
    claimable_at: Any
    claims_without_progress: int
    progress: str | None
    error_code: str
    error_message: str
    started_at: Any
    finished_at: Any
    on_restart: str
    model: str
    metadata: str
    input_tokens: int
    created_at: Any
    response_id: str | None
    request: str | None
    store: bool | None

    def subject(self) -> Subject:
        """Return what the response object is made of."""
        return Subject(
            task_id=self.id,
            response_id=self.response_id or responses.id_for(self.id),
            status=Status(self.status),
            model=self.model,
            on_restart=self.on_restart,
            metadata=json.loads(self.metadata),
            request=json.loads(self.request or "{}"),
            store=self.store is not False,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            error_code=self.error_code,
            error_message=self.error_message,
            created_at=_unix(self.created_at),
            finished_at=_unix(self.finished_at),
        )


# The first columns are written, those from on_restart on are only read.
_WRITTEN = Record._fields[1 : Record._fields.index("on_restart")]
_READ = ", ".join(
    f"r.{'id' if name == 'response_id' else name}" if name in ("response_id", "request", "store") else f"t.{name}"
    for name in Record._fields
)
_SELECT = f"SELECT {_READ} FROM tasks t LEFT JOIN responses r ON r.task_id = t.id WHERE t.id IN "  # noqa: S608
_GUARDS = ("id", "status", "attempt", "last_sequence_number", "output_tokens")
_UPDATE = (
    f"UPDATE tasks SET {', '.join(f'{name} = %s' for name in _WRITTEN)}"  # noqa: S608
    f" WHERE {' AND '.join(f'{name} = %s' for name in _GUARDS)}"
)
_STORE_RESPONSE = "UPDATE responses SET body = %s WHERE task_id = %s"


@dataclass(frozen=True, slots=True)
class Change:
    """Where a task goes and what its log says of it.

    Attributes:
        record: with new values; the sequence number is taken by ``apply``.
        event: the event of the change; ``None`` for a change that no reader can see.
        fields: what the event carries beside the response object.
        output: what was generated; read from the log when left out.
        incomplete_reason: why a completed task's response is ``incomplete``.
    """

    record: Record
    event: EventType | None
    fields: dict[str, Any] = field(default_factory=dict)
    output: Output | None = None
    incomplete_reason: str | None = None


def apply(task_ids: Sequence[str], decide: Callable[[Record], Change | None]) -> list[Change]:
    """Let `decide` change each of the tasks, in one transaction; return the changes that were made.

    Args:
        task_ids: a few hundred at most.
        decide: gets a record as it stands, and returns ``None`` where the task is not to be changed. It may be
            called again when somebody else was faster.
    """
    for _ in range(_MOST_TRIES):
        with transaction.atomic():
            before = _read(task_ids)
            changes = [change for record in before if (change := decide(record))]
            if _write({record.id: record for record in before}, changes):
                return changes
            # Only a database that runs several writers at once comes here.
            transaction.set_rollback(True)
    raise RuntimeError(f"the tasks {task_ids[:3]} are changed by others again and again")


def entered(record: Record, new: Status, **changes: Any) -> Record:
    """Return `record` in its new state; a finished one is let go by its owner."""
    if new in FINISHED:
        changes = {"finished_at": moment(datetime.now(UTC)), "owner": None, "progress": None, **changes}
    return record._replace(status=new.value, **changes)


def moment(value: datetime | None) -> Any:
    """Return a moment as the database has it."""
    return connection.ops.adapt_datetimefield_value(value)


def _unix(value: Any) -> int | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value).replace(tzinfo=UTC)
    return int(value.timestamp()) if value else None


def _read(task_ids: Sequence[str]) -> list[Record]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_SELECT}({', '.join(['%s'] * len(task_ids))})", list(task_ids))
        return [Record(*row) for row in cursor.fetchall()]


def _write(before: dict[str, Record], changes: Sequence[Change]) -> bool:
    """Write all changes; tell whether each of them found its task as it was."""
    if not changes:
        return True
    updates, events, stored = [], [], []
    for change in changes:
        old, new = before[change.record.id], change.record
        if change.event:
            new = new._replace(last_sequence_number=old.last_sequence_number + 1)
            body = _body(change, new)
            text = event_log.encode(body)
            prefix = event_log.encode(change.fields)[:-1] + "," if change.fields else "{"
            events.append((new.id, new.last_sequence_number, change.event, f'{prefix}"response":{text}}}'))
            if new.status in FINISHED:
                stored.append((text, new.id))
        updates.append((*new[1 : len(_WRITTEN) + 1], *(getattr(old, name) for name in _GUARDS)))
    with connection.cursor() as cursor:
        cursor.executemany(_UPDATE, updates)
        if cursor.rowcount != len(updates):
            return False
        if stored:
            cursor.executemany(_STORE_RESPONSE, stored)
    event_log.append_encoded(events)
    if stored:
        idempotency.store_results([task_id for _, task_id in stored])
    if events:
        wakeup.after_commit(*(task_id for task_id, *_ in events))
    return True


def _body(change: Change, new: Record) -> dict[str, Any]:
    output = change.output
    if output is None and new.output_tokens:
        output = Output.of(new.id)
    return responses.build(new.subject(), output, incomplete_reason=change.incomplete_reason)
