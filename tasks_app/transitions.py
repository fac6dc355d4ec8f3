"""The one door by which a task changes its state: one task or many, in one transaction (R2).

A verb of ``lifecycle`` is a function from the record as it stands to what shall become of it, with the event that says
so. The guarded UPDATE finds the record as it was read or changes nothing, takes the next sequence number and
writes the new state; event and idempotency result go in with it, and the journal of a task that is to start anew goes
out.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
from django.db import connection, transaction

from tasks_app import event_log, idempotency, ownership, responses, snapshot, statistics, usage, wakeup
from tasks_app.output import Output
from tasks_app.responses import Subject
from tasks_app.states import FINISHED, EventType, Status
from tasks_app.statistics import Counts
from tasks_app.tally import Tally

_MOST_TRIES = 20


class Record(NamedTuple):
    """A task as the database has it: what a verb decides by, and what its response object is made of."""

    id: str
    status: str
    attempt: int
    last_sequence_number: int
    output_tokens: int
    owner: str | None
    claimable_at: str | None
    claims_without_progress: int
    progress: str | None
    error_code: str
    error_message: str
    started_at: str | None
    finished_at: str | None
    on_restart: str
    model: str
    priority: int
    metadata: str
    input_tokens: int
    created_at: str
    client_id: str
    stored_bytes: int | None
    response_id: str | None
    request: str | None
    store: bool | None


_OF_RESPONSE = {"response_id": "r.id", "request": "r.request", "store": "r.store"}
# As text: most of them are only compared.
_MOMENTS = {name: f"CAST(t.{name} AS TEXT)" for name in ("claimable_at", "started_at", "finished_at", "created_at")}
_READ = ", ".join((_OF_RESPONSE | _MOMENTS).get(name, f"t.{name}") for name in Record._fields)
_SELECT = f"SELECT {_READ} FROM tasks t LEFT JOIN responses r ON r.task_id = t.id WHERE t.id IN "  # noqa: S608
_GUARDS = ("id", "status", "attempt", "last_sequence_number", "output_tokens")
_guards_of = attrgetter(*_GUARDS)


class Change(NamedTuple):
    """Where a task goes and what its log says of it.

    Attributes:
        record: the task as it is.
        columns: what becomes of it; sequence number and end are filled in by ``plan``.
        event: the event of the change; ``None`` for a change that no reader can see.
        fields: what the event carries beside the response object.
        output: what was generated; read from the log when left out.
        cause: which end of a worker, engine or service a recovery acts on; nothing for every other change.
        observed: what its run has measured and goes into the statistics with it.
    """

    record: Record
    columns: dict[str, Any]
    event: EventType | None
    fields: dict[str, Any] | None = None
    output: Output | None = None
    cause: str = ""
    observed: Counts | None = None

    @property
    def status(self) -> str:
        """Where the task goes, or stays."""
        status: str = self.columns.get("status", self.record.status)
        return status

    @property
    def ends(self) -> bool:
        """Whether nothing can follow."""
        return self.status in FINISHED


class Plan(NamedTuple):
    """Changes, and every row that they write; made without a lock, so that another process can make it.

    Attributes:
        changes: what was decided.
        updates: by the columns that are written, for each change their values and those that guard them.
        events: rows of the log.
        results: response objects for idempotency keys, with the ids of the tasks that end.
        anew: ids of the tasks whose journals go.
        counts: what the statistics gain.
        used: what is added to the usage of clients.
    """

    changes: list[Change]
    updates: dict[tuple[str, ...], list[tuple[Any, ...]]]
    events: list[tuple[str, int, EventType, str]]
    results: list[tuple[str, str]]
    anew: list[str]
    counts: Counts
    used: usage.Sums


def apply(task_ids: Sequence[str], decide: Callable[[Record], Change | None]) -> list[Change]:
    """Let `decide` change each of the tasks, in one transaction; return the changes that were made.

    Args:
        task_ids: a few thousand at most.
        decide: gets a record as it stands, and returns ``None`` where the task is not to be changed. It may be
            called again when somebody else was faster.
    """
    if not task_ids:
        return []
    for _ in range(_MOST_TRIES):
        with transaction.atomic():
            made = plan(task_ids, decide)
            if carry_out(made):
                return made.changes
            # Only a database that runs several writers at once comes here.
    raise RuntimeError(f"the tasks {task_ids[:3]} are changed by others again and again")


def plan(task_ids: Sequence[str], decide: Callable[[Record], Change | None]) -> Plan:
    """Read the tasks, let `decide` change them, and make the rows that say so; see ``apply``."""
    # Whatever a verb says of a task that has ended: nothing follows its end.
    changes = [change for record in _read(task_ids) if (change := decide(record)) and record.status not in FINISHED]
    outputs = Output.of_each([change.record.id for change in changes if _has_output_in_log(change)])
    awaiting = idempotency.awaiting_results([change.record.id for change in changes if change.ends])
    made = Plan(changes, defaultdict(list), [], [], [], {}, {})
    tally = Tally()
    now = moment(datetime.now(UTC))
    for change in changes:
        record, columns, event, fields, output, cause, observed = change
        if event:
            number = columns["last_sequence_number"] = record.last_sequence_number + 1
            if change.ends:
                # Not before it began, where the clock was set back: retention would remove it at once.
                columns["finished_at"] = max(filter(None, (now, record.created_at, record.started_at)))
            subject = _subject(record, columns)
            output = output or outputs.get(record.id)
            text = event_log.encode(responses.build(subject, output))
            prefix = event_log.encode(fields)[:-1] + "," if fields else "{"
            made.events.append((record.id, number, event, f'{prefix}"response":{text}}}'))
            if change.ends:
                columns["stored_bytes"] = (record.stored_bytes or 0) + len(text.encode())
            if record.id in awaiting:
                made.results.append((text, record.id))
            if event is EventType.QUEUED:
                made.anew.append(record.id)
        elif all(getattr(record, name) == value for name, value in columns.items()):
            continue
        made.updates[tuple(columns)].append((*columns.values(), *_guards_of(record)))
        tally.note(record, columns, fields, cause, observed)
    return made._replace(counts=tally.counts(), used=tally.used)


def carry_out(plan: Plan) -> bool:
    """Write a plan in one transaction; tell whether each change found its task as it had been read.

    Where one did not, nothing is written, by a transaction around this one neither.
    """
    with transaction.atomic(savepoint=False):
        done = _write(plan)
        if not done:
            transaction.set_rollback(True)
    return done


def _write(plan: Plan) -> bool:
    if not plan.updates:
        return True
    with connection.cursor() as cursor:
        for columns, rows in plan.updates.items():
            cursor.executemany(_update(columns), rows)
            if cursor.rowcount != len(rows):
                return False
    event_log.append_encoded(plan.events)
    snapshot.clear(plan.anew)
    statistics.add(plan.counts)
    usage.add(plan.used)
    if plan.results:
        idempotency.store_results(plan.results)
    if plan.events:
        wakeup.after_commit(*(task_id for task_id, *_ in plan.events))
    owners = {change.record.owner for change in plan.changes if change.record.owner}
    wakeup.owners_after_commit(owner for owner in owners if not ownership.is_own(owner))
    return True


def entered(new: Status, **columns: Any) -> dict[str, Any]:
    """Return the columns of a task that enters a state; a finished one is let go by its owner."""
    if new in FINISHED:
        return {"status": new.value, "owner": None, "progress": None, "incomplete_reason": None, **columns}
    return {"status": new.value, **columns}


def moment(value: datetime | None) -> str | None:
    """Return a moment as the database has it."""
    adapted: str | None = connection.ops.adapt_datetimefield_value(value)
    return adapted


@cache
def _update(columns: tuple[str, ...]) -> str:
    changes = ", ".join(f"{name} = %s" for name in columns)
    return f"UPDATE tasks SET {changes} WHERE {' AND '.join(f'{name} = %s' for name in _GUARDS)}"  # noqa: S608


def _subject(record: Record, columns: dict[str, Any]) -> Subject:
    """Return what the response object is made of, when `columns` have changed."""
    return Subject(
        task_id=record.id,
        response_id=record.response_id or responses.id_for(record.id),
        status=columns["status"],
        model=record.model,
        on_restart=record.on_restart,
        metadata=orjson.loads(record.metadata),
        request=orjson.loads(record.request or "{}"),
        store=record.store is not False,
        input_tokens=record.input_tokens,
        output_tokens=columns.get("output_tokens", record.output_tokens),
        error_code=columns.get("error_code", record.error_code),
        error_message=columns.get("error_message", record.error_message),
        incomplete_reason=columns.get("incomplete_reason"),
        created_at=_unix(record.created_at),
        finished_at=_unix(columns.get("finished_at")),
    )


@lru_cache
def _unix(value: str | None) -> int | None:
    return int(datetime.fromisoformat(f"{value}+00:00").timestamp()) if value else None


def _read(task_ids: Sequence[str]) -> list[Record]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_SELECT}({', '.join(['%s'] * len(task_ids))})", list(task_ids))
        return list(map(Record._make, cursor.fetchall()))


def _has_output_in_log(change: Change) -> bool:
    return change.event is not None and change.output is None and change.record.output_tokens > 0
