"""The verbs of a task's life. Nothing else changes a task's state, and all of them go through ``transitions``.

Whoever loses a race writes nothing. A claim raises ``attempt``, and every later write of that run is guarded by
it, so that a worker thought dead that comes back can write nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection, transaction

from lmsp_site import rows
from lmsp_site.models import ServiceConfig
from tasks_app import claim_order, event_log, responses, snapshot, statistics, wakeup
from tasks_app.event_log import Event
from tasks_app.models import Priority, Response, Task
from tasks_app.output import Output
from tasks_app.responses import Subject
from tasks_app.states import FINISHED, RECOVERY, EventType, Status, may_enter
from tasks_app.statistics import Counts
from tasks_app.transitions import Change, Plan, Record, apply, entered, moment, plan

_APPEND = (
    "UPDATE tasks SET last_sequence_number = last_sequence_number + %s, output_tokens = output_tokens + %s,"
    " claims_without_progress = 0, progress = NULL"
    " WHERE id = %s AND attempt = %s AND status = 'running' AND output_tokens = %s"
    " RETURNING last_sequence_number"
)
_RETRY_DELAY = timedelta(seconds=1)
_LONGEST_RETRY_DELAY = timedelta(seconds=60)


class Fenced(Exception):
    """This run does not hold its task any more: it was cancelled, recovered or claimed by another."""


@dataclass(frozen=True, slots=True)
class Run:
    """One claim of a task: who may write to it until it ends."""

    task_id: str
    attempt: int
    owner: str


class Orphan(NamedTuple):
    """A task as it was when its worker was found dead."""

    id: str
    status: str
    attempt: int
    owner: str | None


def now() -> datetime:
    """Return the present, in UTC."""
    return datetime.now(UTC)


def birth(task: Task, response: Response) -> None:
    """Write a new task with its first two events; part of the transaction that accepts it (R1)."""
    task.last_sequence_number = 1
    rows.insert(task)
    rows.insert(response)
    body = responses.build(Subject.of(task))
    event_log.append(
        task.id,
        0,
        [
            Event(EventType.CREATED, {"response": body}),
            Event(EventType.QUEUED, {"response": body, "attempt": 1}),
        ],
    )
    created: Counts = {}
    statistics.count(created, statistics.TASKS_CREATED, task.model, Priority(task.priority).name.lower())
    statistics.add(created)
    wakeup.after_commit(task.id)


def claim(candidate: Task, owner: str, job_id: str, *, loaded: bool, exact: bool = False) -> Run | None:
    """Take `candidate` for `owner`; ``None`` when another was faster, or its attempts or its client's limit are used.

    Args:
        candidate: a claimable task as it was read.
        owner: the name under which the worker can be proven dead.
        job_id: the runner's job that does the work.
        loaded: whether the model is in memory, so that ``loading`` is passed over.
        exact: for a task to be resumed: whether it goes on exactly as it would have.
    """
    limit = ServiceConfig.setting("max_attempts")

    def decide(record: Record) -> Change | None:
        if (record.status, record.attempt) != (candidate.status, candidate.attempt) or record.owner is not None:
            return None
        if record.status not in (Status.QUEUED, Status.RUNNING):
            return None
        claims = record.claims_without_progress
        if limit and claims >= limit:
            return _failed(record, "too_many_attempts", f"The task was started {claims} times without any progress.")
        resumed = record.status == Status.RUNNING
        if not resumed and claim_order.is_held_back(candidate.client_id):
            return None
        new = Status.RUNNING if resumed or loaded else Status.LOADING
        attempt = record.attempt + 1
        columns = entered(
            new,
            attempt=attempt,
            owner=owner,
            job_id=job_id,
            claimable_at=None,
            claims_without_progress=claims + 1,
            started_at=record.started_at or moment(now()),
        )
        resume = {"resumed": True, "exact": exact} if resumed else {}
        return Change(record, columns, _EVENT_OF[new], {"attempt": attempt, **resume})

    with transaction.atomic():
        for change in apply([candidate.id], decide):
            if change.status not in FINISHED:
                claim_order.note_served(candidate.client_id)
                return Run(candidate.id, change.columns["attempt"], owner)
    return None


def start(run: Run) -> None:
    """Take `run` from ``loading`` to ``running``; nothing to do where loading was passed over.

    Raises:
        Fenced: it was cancelled meanwhile, or is another's.
    """
    held = False

    def decide(record: Record) -> Change | None:
        nonlocal held
        held = record.attempt == run.attempt and record.status in (Status.LOADING, Status.RUNNING)
        if not held or record.status == Status.RUNNING:
            return None
        columns = entered(Status.RUNNING, progress=None)
        return Change(record, columns, EventType.IN_PROGRESS, {"attempt": run.attempt})

    apply([run.task_id], decide)
    if not held:
        raise Fenced(run.task_id)


def append(run: Run, position: int, tokens: Sequence[int], rows: Sequence[int], events: Sequence[Event]) -> None:
    """Write what one commit has to say: events, and the tokens they were made from.

    Args:
        run: the claim that generates.
        position: how many tokens the task had before these. A commit whose success was in doubt can be
            repeated: had it succeeded, the repetition finds another count and writes nothing.
        tokens: token ids.
        rows: rows of the decode that chose each token.
        events: output events; none while text is held back.

    Raises:
        Fenced: the task is not this run's to write to.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_APPEND, (len(events), len(tokens), run.task_id, run.attempt, position))
            row = cursor.fetchone()
        if row is None:
            raise Fenced(run.task_id)
        if tokens:
            snapshot.append(run.task_id, position, tokens, rows)
        event_log.append(run.task_id, row[0] - len(events) + 1, events)
        wakeup.after_commit(run.task_id)


def note_progress(run: Run, progress: dict[str, Any]) -> None:
    """Show how far loading, prefill or replay has come: ``{"phase", "done", "total"}``; no event."""
    Task.objects.filter(pk=run.task_id, attempt=run.attempt, finished_at=None).update(progress=progress)


def complete(
    run: Run,
    position: int,
    tokens: Sequence[int],
    rows: Sequence[int],
    closing: Sequence[Event],
    output: Output,
    incomplete_reason: str | None,
    observed: Counts | None = None,
) -> None:
    """Write the last tokens, the closing events and the terminal event, which stores the response: one transaction.

    Args:
        run: the claim that has finished.
        position: how many tokens the task had before `tokens`, see ``append``.
        tokens: the last token ids, if they are not written yet.
        rows: rows of the decode that chose each token.
        closing: the events that end the output.
        output: all of it, `closing` included.
        incomplete_reason: why the response is ``incomplete``; ``None`` when it is not.
        observed: what the run has measured, to be written with its end.

    Raises:
        Fenced: the task is not this run's to finish (R3: it was cancelled before).
    """
    kind = EventType.INCOMPLETE if incomplete_reason else EventType.COMPLETED

    def decide(record: Record) -> Change | None:
        if not _may(record, Status.COMPLETED, run.attempt):
            return None
        columns = entered(Status.COMPLETED, incomplete_reason=incomplete_reason)
        return Change(record, columns, kind, output=output, observed=observed)

    with transaction.atomic():
        append(run, position, tokens, rows, closing)
        if not apply([run.task_id], decide):
            raise Fenced(run.task_id)


def fail(task_id: str, code: str, message: str, *, attempt: int | None = None) -> bool:
    """Fail an unfinished task; tell whether it was this call that did it."""

    def decide(record: Record) -> Change | None:
        return _failed(record, code, message) if _may(record, Status.FAILED, attempt) else None

    return bool(apply([task_id], decide))


def cancel(task_id: str) -> Status:
    """Cancel a task and return its state afterwards; a finished task is left as it is (R3).

    A waiting task is cancelled at once. One that a worker holds becomes ``cancelling``, and nothing but
    ``cancelled`` can follow: its worker's next write finds the guard closed.
    """
    status = Status.CANCELLED

    def decide(record: Record) -> Change | None:
        nonlocal status
        status = Status(record.status)
        for new in (Status.CANCELLED, Status.CANCELLING):
            if status is not Status.CANCELLING and _may(record, new):
                status = new
                return Change(record, entered(new), _EVENT_OF[new])
        return None

    with transaction.atomic():
        changes = apply([task_id], decide)
        if status is Status.CANCELLING and changes and changes[0].record.owner is None:
            # Left by a restart and not claimed yet: there is nobody to stop.
            finish_cancel(task_id)
            status = Status.CANCELLED
    return status


def amend(task_id: str, *, priority: int | None = None, on_restart: str | None = None) -> bool:
    """Change how a task that still waits is queued and recovered; tell whether it waited. No reader can see it."""
    given = {"priority": priority, "on_restart": on_restart}
    columns = {name: value for name, value in given.items() if value is not None}

    def decide(record: Record) -> Change | None:
        return Change(record, dict(columns), None) if record.status == Status.QUEUED else None

    return bool(apply([task_id], decide))


def finish_cancel(task_id: str, attempt: int | None = None) -> bool:
    """Take a task from ``cancelling`` to ``cancelled``, once nothing computes for it any more."""

    def decide(record: Record) -> Change | None:
        if record.status != Status.CANCELLING or not _may(record, Status.CANCELLED, attempt):
            return None
        return Change(record, entered(Status.CANCELLED), EventType.CANCELLED)

    return bool(apply([task_id], decide))


def apply_restart_policy(orphans: Sequence[Orphan], code: str, message: str) -> dict[str, Status]:
    """Apply chapter 11.3 to tasks whose workers are gone (R6); return where they went, by id.

    Args:
        orphans: a few thousand at most; one that was claimed or changed since is left alone.
        code: error code of a task that fails.
        message: why it fails.
    """
    changes = apply([orphan.id for orphan in orphans], _restart_policy(orphans, code, message))
    return {change.record.id: Status(change.status) for change in changes}


def plan_restart_policy(orphans: Sequence[Orphan], code: str, message: str) -> Plan:
    """Make the plan of ``apply_restart_policy``, to be carried out by another process."""
    return plan([orphan.id for orphan in orphans], _restart_policy(orphans, code, message))


def _restart_policy(orphans: Sequence[Orphan], code: str, message: str) -> Callable[[Record], Change | None]:
    found = {orphan.id: orphan for orphan in orphans}

    def decide(record: Record) -> Change | None:
        if (record.id, record.status, record.attempt, record.owner) != found[record.id]:
            return None
        return _recovered(record, code, message)

    return decide


def _recovered(record: Record, code: str, message: str) -> Change:
    new = RECOVERY[record.status][record.on_restart]
    if new is Status.FAILED:
        return _failed(record, code, message, cause=code)
    if new is Status.CANCELLED:
        return Change(record, entered(new), EventType.CANCELLED, cause=code)
    free: dict[str, Any] = {"owner": None, "progress": None}
    if record.finished_at:
        free["finished_at"] = None
    if record.status == Status.QUEUED:
        return Change(record, free, None, cause=code)
    free["claimable_at"] = _due(record.claims_without_progress)
    if new is Status.RUNNING:
        # Nothing that a reader could see; the claim of the resume writes its event.
        return Change(record, free, None, cause=code)
    anew = entered(new, **free, output_tokens=0)
    return Change(record, anew, EventType.QUEUED, {"attempt": record.attempt + 1}, Output(record.id), cause=code)


def _failed(record: Record, code: str, message: str, cause: str = "") -> Change:
    columns = entered(Status.FAILED, error_code=code, error_message=message)
    return Change(record, columns, EventType.FAILED, cause=cause)


def _may(record: Record, new: Status, attempt: int | None = None) -> bool:
    """Tell whether a task may go to `new`, and is still in the attempt that wants it."""
    return may_enter(new, Status(record.status)) and attempt in (None, record.attempt)


def _due(claims_without_progress: int) -> Any:
    """Return when a task that was interrupted may be claimed again: the first time at once."""
    if claims_without_progress < 2:
        return None
    delay = _RETRY_DELAY * float(2 ** (claims_without_progress - 2))
    return moment(now() + min(delay, _LONGEST_RETRY_DELAY))


_EVENT_OF: dict[Status, EventType] = {
    Status.QUEUED: EventType.QUEUED,
    Status.LOADING: EventType.LOADING,
    Status.RUNNING: EventType.IN_PROGRESS,
    Status.CANCELLING: EventType.CANCELLING,
    Status.COMPLETED: EventType.COMPLETED,
    Status.FAILED: EventType.FAILED,
    Status.CANCELLED: EventType.CANCELLED,
}
