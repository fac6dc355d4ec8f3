"""Every change of a task's state.

One guarded UPDATE checks where the task is, changes it and takes its next sequence numbers; the events go in
with it, in the same transaction (R2). Whoever loses a race writes nothing. A claim raises ``attempt``, and every
later write of that run is guarded by it, so that a worker thought dead that comes back can write nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F

from lmsp_site.models import RestartPolicy, ServiceConfig
from tasks_app import event_log, idempotency, responses, snapshot, wakeup
from tasks_app.event_log import Event
from tasks_app.models import Response, Task
from tasks_app.output import Output
from tasks_app.states import ENTERED_FROM, FINISHED, RECOVERY, EventType, Status

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


def now() -> datetime:
    """Return the present, in UTC."""
    return datetime.now(UTC)


def birth(task: Task, response: Response) -> None:
    """Write a new task with its first two events; part of the transaction that accepts it (R1)."""
    task.last_sequence_number = 1
    task.save(force_insert=True)
    response.save(force_insert=True)
    body = responses.build(response, task)
    event_log.append(
        task.id,
        0,
        [
            Event(EventType.CREATED, {"response": body}),
            Event(EventType.QUEUED, {"response": body, "attempt": 1}),
        ],
    )
    wakeup.after_commit(task.id)


def claim(candidate: Task, owner: str, job_id: str, *, loaded: bool, exact: bool = False) -> Run | None:
    """Take `candidate` for `owner`; ``None`` when another was faster or its attempts are used up.

    Args:
        candidate: a claimable task as it was read.
        owner: the name under which the worker can be proven dead.
        job_id: the runner's job that does the work.
        loaded: whether the model is in memory, so that ``loading`` is passed over.
        exact: for a task to be resumed: whether it goes on exactly as it would have.
    """
    resumed = candidate.status == Status.RUNNING
    limit = ServiceConfig.current().max_attempts
    if limit and candidate.claims_without_progress >= limit:
        fail(
            candidate.id,
            "too_many_attempts",
            f"The task was started {candidate.claims_without_progress} times without any progress.",
            attempt=candidate.attempt,
        )
        return None
    attempt = candidate.attempt + 1
    fields: dict[str, Any] = {"attempt": attempt}
    if resumed:
        fields |= {"resumed": True, "exact": exact}
    new = Status.RUNNING if resumed or loaded else Status.LOADING
    moved = _move(
        candidate.id,
        new,
        expected={Status(candidate.status)},
        attempt=candidate.attempt,
        owner=None,
        fields=fields,
        changes={
            "attempt": attempt,
            "owner": owner,
            "job_id": job_id,
            "claimable_at": None,
            "claims_without_progress": F("claims_without_progress") + 1,
            "started_at": candidate.started_at or now(),
        },
    )
    return Run(candidate.id, attempt, owner) if moved else None


def start(run: Run) -> None:
    """Take `run` from ``loading`` to ``running``.

    Raises:
        Fenced: it was cancelled meanwhile, or is another's.
    """
    if not _move(run.task_id, Status.RUNNING, attempt=run.attempt, fields={"attempt": run.attempt}):
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
) -> None:
    """Write the last tokens, the closing events, the terminal event and the stored response: one transaction.

    Args:
        run: the claim that has finished.
        position: how many tokens the task had before `tokens`, see ``append``.
        tokens: the last token ids, if they are not written yet.
        rows: rows of the decode that chose each token.
        closing: the events that end the output.
        output: all of it, `closing` included.
        incomplete_reason: why the response is ``incomplete``; ``None`` when it is not.

    Raises:
        Fenced: the task is not this run's to finish (R3: it was cancelled before).
    """
    with transaction.atomic():
        append(run, position, tokens, rows, closing)
        moved = _move(
            run.task_id,
            Status.COMPLETED,
            attempt=run.attempt,
            kind=EventType.INCOMPLETE if incomplete_reason else EventType.COMPLETED,
            output=output,
            incomplete_reason=incomplete_reason,
        )
        if not moved:
            raise Fenced(run.task_id)


def fail(task_id: str, code: str, message: str, *, attempt: int | None = None) -> bool:
    """Fail an unfinished task; tell whether it was this call that did it."""
    return _move(task_id, Status.FAILED, attempt=attempt, changes={"error_code": code, "error_message": message})


def cancel(task_id: str) -> Status:
    """Cancel a task and return its state afterwards; a finished task is left as it is (R3).

    A waiting task is cancelled at once. One that a worker holds becomes ``cancelling``, and nothing but
    ``cancelled`` can follow: its worker's next write finds the guard closed.
    """
    with transaction.atomic():
        status, owner = Task.objects.values_list("status", "owner").get(pk=task_id)
        if status == Status.QUEUED:
            if _move(task_id, Status.CANCELLED):
                return Status.CANCELLED
        elif status in ENTERED_FROM[Status.CANCELLING]:
            _move(task_id, Status.CANCELLING)
            if owner is None:
                # Left by a restart and not claimed yet: there is nobody to stop.
                finish_cancel(task_id)
        return Status(Task.objects.values_list("status", flat=True).get(pk=task_id))


def finish_cancel(task_id: str, attempt: int | None = None) -> bool:
    """Take a task from ``cancelling`` to ``cancelled``, once nothing computes for it any more."""
    return _move(task_id, Status.CANCELLED, expected={Status.CANCELLING}, attempt=attempt)


def apply_restart_policy(task: Task, code: str, message: str) -> Status | None:
    """Apply chapter 11.3 to a task whose worker is gone (R6); return where it went.

    Args:
        task: the row as it was read. The change is void (``None``) if it has been claimed since.
        code: error code of a task that fails.
        message: why it fails.
    """
    status, policy = Status(task.status), RestartPolicy(task.on_restart)
    new = RECOVERY[status][policy]
    if new is Status.FAILED:
        done = fail(task.id, code, message, attempt=task.attempt)
    elif new is Status.CANCELLED:
        done = finish_cancel(task.id, task.attempt)
    elif new is Status.QUEUED and status is not Status.QUEUED:
        done = _requeue(task)
    else:
        # Nothing changes that a reader could see; the claim of a resume writes its event.
        done = bool(
            Task.objects.filter(pk=task.id, status=status, attempt=task.attempt).update(
                owner=None, claimable_at=_delay(task) if status is Status.RUNNING else task.claimable_at
            )
        )
    return new if done else None


def _requeue(task: Task) -> bool:
    with transaction.atomic():
        moved = _move(
            task.id,
            Status.QUEUED,
            attempt=task.attempt,
            fields={"attempt": task.attempt + 1},
            changes={"owner": None, "claimable_at": _delay(task), "output_tokens": 0, "progress": None},
            output=Output(),
        )
        if moved:
            snapshot.clear(task.id)
    return moved


def _delay(task: Task) -> datetime | None:
    """Return when a task that was interrupted may be claimed again: the first time at once."""
    failures = task.claims_without_progress
    if failures < 2:
        return None
    return now() + min(_RETRY_DELAY * float(2 ** (failures - 2)), _LONGEST_RETRY_DELAY)


_EVENT_OF: dict[Status, EventType] = {
    Status.QUEUED: EventType.QUEUED,
    Status.LOADING: EventType.LOADING,
    Status.RUNNING: EventType.IN_PROGRESS,
    Status.CANCELLING: EventType.CANCELLING,
    Status.COMPLETED: EventType.COMPLETED,
    Status.FAILED: EventType.FAILED,
    Status.CANCELLED: EventType.CANCELLED,
}

_ANYBODY: Any = object()


def _move(
    task_id: str,
    new: Status,
    *,
    expected: Collection[Status] | None = None,
    attempt: int | None = None,
    owner: str | None = _ANYBODY,
    kind: EventType | None = None,
    fields: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
    output: Output | None = None,
    incomplete_reason: str | None = None,
) -> bool:
    """Change a task's state with its event; tell whether the guard let it happen."""
    guard: dict[str, Any] = {"status__in": expected or ENTERED_FROM[new]}
    if attempt is not None:
        guard["attempt"] = attempt
    if owner is not _ANYBODY:
        guard["owner"] = owner
    changes = {**(changes or {}), "status": new}
    if new in FINISHED:
        changes |= {"finished_at": now(), "owner": None, "progress": None}
    with transaction.atomic():
        if not Task.objects.filter(pk=task_id, **guard).update(
            last_sequence_number=F("last_sequence_number") + 1, **changes
        ):
            return False
        task = Task.objects.select_related("response").get(pk=task_id)
        body = responses.build(
            responses.of(task),
            task,
            output if output is not None else Output.of(task_id),
            incomplete_reason=incomplete_reason,
        )
        event = Event(kind or _EVENT_OF[new], {**(fields or {}), "response": body})
        event_log.append(task_id, task.last_sequence_number, [event])
        if new in FINISHED:
            Response.objects.filter(task=task).update(body=body)
            idempotency.store_result(task, body)
        wakeup.after_commit(task_id)
    return True
