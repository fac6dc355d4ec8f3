"""R2 and the guards of the one door: a change is whole or not there, and finds its task as it was read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import DatabaseError, connection

from clients_app.models import Client
from tasks_app import audit, lifecycle, snapshot
from tasks_app.lifecycle import Fenced, Orphan, Run
from tasks_app.models import Task
from tasks_app.states import EventType, Status
from tasks_app.transitions import Change, Record, apply, entered
from tests.store.tasks import finish, log, new_task, recover, running, say


@pytest.fixture(autouse=True)
def _audited(database: Path) -> Iterator[None]:
    yield
    assert audit.audit(database)["violations"] == []


@contextmanager
def _log_refuses(kind: EventType) -> Iterator[None]:
    """Let the log refuse events of one kind, as a full disk would."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TRIGGER refusal BEFORE INSERT ON task_events"
            f" WHEN NEW.type = '{kind}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        yield
        cursor.execute("DROP TRIGGER refusal")


def _everything(task_id: str) -> tuple[object, ...]:
    task = Task.objects.filter(pk=task_id).values().get()
    progress = snapshot.load(task_id)
    return task, log(Task.objects.get(pk=task_id)), progress


_CHANGES: dict[EventType, Callable[[Run], object]] = {
    EventType.CANCELLING: lambda run: lifecycle.cancel(run.task_id),
    EventType.FAILED: lambda run: lifecycle.fail(run.task_id, "x", "x", attempt=run.attempt),
    EventType.COMPLETED: lambda run: finish(run, " and an end"),
    EventType.OUTPUT_TEXT_DELTA: lambda run: say(run, " and more"),
    EventType.QUEUED: lambda run: recover(Task.objects.get(pk=run.task_id), "x"),
}


@pytest.mark.parametrize("kind", list(_CHANGES))
def test_R2_a_change_whose_event_is_refused_has_not_happened(client: Client, kind: EventType) -> None:
    """The state, the text, the journal: nothing of it goes without its event."""
    task, run = running(client, on_restart="retry")
    say(run, "A beginning")
    before = _everything(task.id)
    with _log_refuses(kind), pytest.raises(DatabaseError, match="refused"):
        _CHANGES[kind](run)
    assert _everything(task.id) == before
    finish(run, ".")


def test_R2_a_claim_whose_event_is_refused_has_not_happened(client: Client) -> None:
    task = new_task(client)
    before = _everything(task.id)
    with _log_refuses(EventType.IN_PROGRESS), pytest.raises(DatabaseError, match="refused"):
        lifecycle.claim(task, "somebody", "", loaded=True)
    assert _everything(task.id) == before


@pytest.mark.parametrize("column", ["attempt", "output_tokens", "last_sequence_number", "status"])
def test_a_record_that_has_changed_since_it_was_read_is_read_again(client: Client, column: str) -> None:
    """A database with several writers lets another one in between; here it is the decision itself."""
    task, _ = running(client)
    seen: list[Record] = []

    def decide(record: Record) -> Change:
        seen.append(record)
        if len(seen) == 1:
            Task.objects.filter(pk=task.id).update(**{column: Status.LOADING if column == "status" else 7})
        return Change(record, entered(Status.FAILED, error_code="x"), EventType.FAILED)

    assert len(apply([task.id], decide)) == 1
    # What the other one wrote was rolled back with the attempt that it had spoiled, and the second try found the rest.
    assert seen[0] == seen[1]
    assert len(seen) == 2


def test_a_task_that_was_claimed_since_it_was_found_orphaned_is_left_alone(client: Client) -> None:
    task, run = running(client, on_restart="resume")
    say(run, "a")
    stale = Orphan(*Task.objects.values_list(*Orphan._fields).get(pk=task.pk))
    recover(task, "worker_died")
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True, exact=True)
    assert again is not None
    before = _everything(task.id)
    assert lifecycle.apply_restart_policy([stale], "worker_died", "gone") == {}
    assert _everything(task.id) == before


def test_a_run_of_an_earlier_attempt_shows_no_progress(client: Client) -> None:
    task, old = running(client, on_restart="resume")
    say(old, "a")
    recover(task, "worker_died")
    new = lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True, exact=True)
    assert new is not None
    lifecycle.note_progress(new, {"phase": "replay", "done": 1, "total": 2})
    lifecycle.note_progress(old, {"phase": "prefill", "done": 9, "total": 9})
    assert Task.objects.get(pk=task.pk).progress == {"phase": "replay", "done": 1, "total": 2}


def test_a_candidate_that_has_changed_since_it_was_read_is_not_claimed(client: Client) -> None:
    """It was claimed, and is free again: the same row, another attempt."""
    task = new_task(client, on_restart="retry")
    assert lifecycle.claim(task, "one", "", loaded=True)
    recover(Task.objects.get(pk=task.pk), "worker_died")
    before = _everything(task.id)
    assert lifecycle.claim(task, "two", "", loaded=True) is None
    assert _everything(task.id) == before


def test_a_task_that_somebody_holds_is_not_claimed(client: Client) -> None:
    held, _ = running(client, on_restart="resume")
    before = _everything(held.id)
    assert lifecycle.claim(held, "two", "", loaded=True, exact=True) is None
    assert _everything(held.id) == before


def test_a_cancel_is_finished_only_by_the_run_that_it_stops(client: Client) -> None:
    task, run = running(client)
    assert lifecycle.cancel(task.id) == Status.CANCELLING
    assert not lifecycle.finish_cancel(task.id, run.attempt + 1)
    assert lifecycle.finish_cancel(task.id, run.attempt)
    assert not lifecycle.finish_cancel(task.id, run.attempt)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_run_that_does_not_hold_its_task_can_append_nothing(client: Client, cancelled: bool) -> None:
    task, run = running(client, on_restart="retry")
    say(run, "a")
    if cancelled:
        lifecycle.cancel(task.id)
    else:
        lifecycle.fail(task.id, "x", "x")
    before = _everything(task.id)
    with pytest.raises(Fenced):
        say(run, "b")
    assert _everything(task.id) == before
