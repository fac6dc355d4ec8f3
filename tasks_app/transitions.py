"""The one door by which a task changes its state: one task or many, in one transaction (R2).

A verb of ``lifecycle`` is a function from the record as it stands to the record as it shall be, with the event that
says so. The guarded UPDATE finds the record as it was read or changes nothing, takes the next sequence number and
writes the new state; event, stored response and idempotency result go in with it, and the journal of a task that is
to start anew goes out.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
from django.db import connection, transaction

from tasks_app import event_log, idempotency, responses, snapshot, wakeup
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
    claimable_at: str | None
    claims_without_progress: int
    progress: str | None
    error_code: str
    error_message: str
    started_at: str | None
    finished_at: str | None
    on_restart: str
    model: str
    metadata: str
    input_tokens: int
    created_at: str
    response_id: str | None
    request: str | None
    store: bool | None

    def subject(self) -> Subject:
        """Return what the response object is made of."""
        return Subject(
            task_id=self.id,
            response_id=self.response_id or responses.id_for(self.id),
            status=self.status,
            model=self.model,
            on_restart=self.on_restart,
            metadata=orjson.loads(self.metadata),
            request=orjson.loads(self.request or "{}"),
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
_OF_RESPONSE = {"response_id": "r.id", "request": "r.request", "store": "r.store"}
# As text: most of them are only written back.
_MOMENTS = {name: f"CAST(t.{name} AS TEXT)" for name in ("claimable_at", "started_at", "finished_at", "created_at")}
_READ = ", ".join((_OF_RESPONSE | _MOMENTS).get(name, f"t.{name}") for name in Record._fields)
_SELECT = f"SELECT {_READ} FROM tasks t LEFT JOIN responses r ON r.task_id = t.id WHERE t.id IN "  # noqa: S608
_GUARDS = ("id", "status", "attempt", "last_sequence_number", "output_tokens")
_UPDATE = (
    f"UPDATE tasks SET {', '.join(f'{name} = %s' for name in _WRITTEN)}"  # noqa: S608
    f" WHERE {' AND '.join(f'{name} = %s' for name in _GUARDS)}"
)
_guards_of = attrgetter(*_GUARDS)
_STORE_RESPONSE = "UPDATE responses SET body = %s WHERE task_id = %s"


class Change(NamedTuple):
    """Where a task goes and what its log says of it.

    Attributes:
        record: with new values; sequence number and end are filled in by ``apply``.
        event: the event of the change; ``None`` for a change that no reader can see.
        fields: what the event carries beside the response object.
        output: what was generated; read from the log when left out.
        incomplete_reason: why a completed task's response is ``incomplete``.
    """

    record: Record
    event: EventType | None
    fields: dict[str, Any] | None = None
    output: Output | None = None
    incomplete_reason: str | None = None


class Plan(NamedTuple):
    """Changes, and every row that they write; made without a lock, so that another process can make it.

    Attributes:
        changes: what was decided.
        updates: for each change, the columns of its task and those that guard them.
        events: rows of the log.
        stored: response objects, with the ids of the tasks that end.
        anew: ids of the tasks whose journals go.
    """

    changes: list[Change]
    updates: list[tuple[Any, ...]]
    events: list[tuple[str, int, EventType, str]]
    stored: list[tuple[str, str]]
    anew: list[str]


def apply(task_ids: Sequence[str], decide: Callable[[Record], Change | None]) -> list[Change]:
    """Let `decide` change each of the tasks, in one transaction; return the changes that were made.

    Args:
        task_ids: a few thousand at most.
        decide: gets a record as it stands, and returns ``None`` where the task is not to be changed. It may be
            called again when somebody else was faster.
    """
    for _ in range(_MOST_TRIES):
        with transaction.atomic():
            made = plan(task_ids, decide)
            if carry_out(made):
                return made.changes
            # Only a database that runs several writers at once comes here.
            transaction.set_rollback(True)
    raise RuntimeError(f"the tasks {task_ids[:3]} are changed by others again and again")


def plan(task_ids: Sequence[str], decide: Callable[[Record], Change | None]) -> Plan:
    """Read the tasks, let `decide` change them, and make the rows that say so; see ``apply``."""
    before = _read(task_ids)
    decided = [(record, change) for record in before if (change := decide(record))]
    outputs = Output.of_each([record.id for record, change in decided if _has_output_in_log(change)])
    made = Plan([change for _, change in decided], [], [], [], [])
    now = moment(datetime.now(UTC))
    for old, (new, event, fields, output, incomplete_reason) in decided:
        if event:
            ends = new.status in FINISHED
            number = old.last_sequence_number + 1
            new = new._replace(last_sequence_number=number, finished_at=now if ends else None)
            output = output or outputs.get(new.id)
            text = event_log.encode(responses.build(new.subject(), output, incomplete_reason=incomplete_reason))
            prefix = event_log.encode(fields)[:-1] + "," if fields else "{"
            made.events.append((new.id, number, event, f'{prefix}"response":{text}}}'))
            if ends and new.response_id:
                made.stored.append((text, new.id))
            if event is EventType.QUEUED:
                made.anew.append(new.id)
        elif new == old:
            continue
        made.updates.append((*new[1 : len(_WRITTEN) + 1], *_guards_of(old)))
    return made


def carry_out(plan: Plan) -> bool:
    """Write a plan, in the caller's transaction; tell whether each change found its task as it had been read.

    Where one did not, the transaction must be rolled back.
    """
    if not plan.updates:
        return True
    with connection.cursor() as cursor:
        cursor.executemany(_UPDATE, plan.updates)
        if cursor.rowcount != len(plan.updates):
            return False
        if plan.stored:
            cursor.executemany(_STORE_RESPONSE, plan.stored)
    event_log.append_encoded(plan.events)
    snapshot.clear(plan.anew)
    if plan.stored:
        idempotency.store_results([task_id for _, task_id in plan.stored])
    if plan.events:
        wakeup.after_commit(*(task_id for task_id, *_ in plan.events))
    return True


def entered(record: Record, new: Status, **changes: Any) -> Record:
    """Return `record` in its new state; a finished one is let go by its owner."""
    if new in FINISHED:
        changes = {"owner": None, "progress": None, **changes}
    return record._replace(status=new.value, **changes)


def moment(value: datetime | None) -> str | None:
    """Return a moment as the database has it."""
    adapted: str | None = connection.ops.adapt_datetimefield_value(value)
    return adapted


@lru_cache
def _unix(value: str | None) -> int | None:
    return int(datetime.fromisoformat(f"{value}+00:00").timestamp()) if value else None


def _read(task_ids: Sequence[str]) -> list[Record]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_SELECT}({', '.join(['%s'] * len(task_ids))})", list(task_ids))
        return list(map(Record._make, cursor.fetchall()))


def _has_output_in_log(change: Change) -> bool:
    return change.event is not None and change.output is None and change.record.output_tokens > 0
