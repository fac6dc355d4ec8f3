"""Changes of state: one transaction, one winner, one event."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from clients_app.models import Client
from tasks_app import audit, event_log, lifecycle, responses, snapshot
from tasks_app.event_log import Event
from tasks_app.lifecycle import Fenced, Run
from tasks_app.models import Task
from tasks_app.states import FINISHED, EventType, Status
from tests.store.tasks import finish, log, new_task, put, recover, running, say, stored_text, types


@pytest.fixture(autouse=True)
def _audited(database: Path) -> Iterator[None]:
    yield
    assert audit.audit(database)["violations"] == []


def test_birth_writes_task_and_two_events(client: Client) -> None:
    task = new_task(client)
    created, queued = log(task)
    assert (created.type, queued.type) == (EventType.CREATED, EventType.QUEUED)
    assert queued.fields()["attempt"] == 1
    assert created.fields()["response"]["status"] == "queued"


def test_claim_passes_loading_over_when_the_model_is_in_memory(client: Client) -> None:
    _, run = running(client)
    assert run.attempt == 1
    assert types(Task.objects.get(pk=run.task_id))[2:] == [EventType.IN_PROGRESS]
    loading = put(new_task(client), Status.LOADING)
    assert types(loading)[2:] == [EventType.LOADING]


def test_a_task_is_claimed_once(client: Client) -> None:
    task = new_task(client)
    assert lifecycle.claim(task, "one", "", loaded=True)
    assert lifecycle.claim(task, "two", "", loaded=True) is None
    assert Task.objects.get(pk=task.pk).owner == "one"


@pytest.mark.parametrize("status", [Status.LOADING, Status.CANCELLING, *sorted(FINISHED)])
def test_what_does_not_wait_is_not_claimed_however_it_was_read(client: Client, status: Status) -> None:
    """Between the look for a task and its reading it may have been cancelled."""
    task = put(new_task(client), status)
    before = types(task)
    assert lifecycle.claim(task, "somebody else", "job", loaded=True) is None
    assert (Task.objects.get(pk=task.pk).status, types(task)) == (status, before)


def test_a_task_that_is_cancelled_while_a_worker_looks_is_passed_over(client: Client) -> None:
    first, second = new_task(client), new_task(client)
    looked = 0

    def cancel_after_the_look(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal looked
        found = execute(sql, *rest)
        if "at_limit" in sql and not looked:
            looked += 1
            lifecycle.cancel(first.id)
        return found

    with connection.execute_wrapper(cancel_after_the_look):
        candidate = Task.objects.next_claimable()
    assert looked
    assert candidate == second


def test_output_and_terminal_event_agree_with_the_stored_response(client: Client) -> None:
    task, run = running(client)
    say(run, "Grüße", " an", " 🌍")
    finish(run, "!")
    task = Task.objects.get(pk=task.pk)
    assert task.status == Status.COMPLETED
    assert stored_text(task) == "Grüße an 🌍!"
    assert responses.current(task)["usage"]["output_tokens"] == 4
    assert types(task)[-4:] == [
        EventType.OUTPUT_TEXT_DONE,
        EventType.CONTENT_PART_DONE,
        EventType.OUTPUT_ITEM_DONE,
        EventType.COMPLETED,
    ]


def test_a_commit_in_doubt_can_be_repeated_without_doubling(client: Client) -> None:
    task, run = running(client)
    say(run, "once")
    with pytest.raises(Fenced):
        lifecycle.append(run, 0, [100], [1], [Event(EventType.OUTPUT_TEXT_DELTA, {"delta": "once"})])
    assert Task.objects.get(pk=task.pk).output_tokens == 1


def test_a_run_of_an_earlier_attempt_can_write_nothing(client: Client) -> None:
    task, old = running(client, on_restart="resume")
    say(old, "first")
    recover(task, "worker_died")
    new = lifecycle.claim(Task.objects.get(pk=task.pk), "other", "", loaded=True, exact=True)
    assert new is not None
    before = len(log(task))
    with pytest.raises(Fenced):
        say(old, "ghost")
    with pytest.raises(Fenced):
        finish(old, "ghost")
    with pytest.raises(Fenced):
        lifecycle.start(old)
    assert not lifecycle.fail(task.id, "x", "x", attempt=old.attempt)
    assert len(log(task)) == before
    say(new, " second")
    finish(new, ".")
    assert Task.objects.get(pk=task.pk).status == Status.COMPLETED


@pytest.mark.parametrize("status", [s for s in Status if s in FINISHED])
def test_cancel_leaves_a_finished_task_as_it_is(client: Client, status: Status) -> None:
    task = put(new_task(client), status)
    before = log(task)
    assert lifecycle.cancel(task.id) == status
    assert log(task) == before


def test_cancel_of_a_queued_task_is_immediate(client: Client) -> None:
    task = new_task(client)
    assert lifecycle.cancel(task.id) == Status.CANCELLED
    assert types(task)[2:] == [EventType.CANCELLED]


def test_after_cancelling_only_cancelled_follows(client: Client) -> None:
    task, run = running(client)
    say(run, "so far")
    assert lifecycle.cancel(task.id) == Status.CANCELLING
    assert lifecycle.cancel(task.id) == Status.CANCELLING
    with pytest.raises(Fenced):
        finish(run, "too late")
    assert not lifecycle.fail(task.id, "x", "x", attempt=run.attempt)
    assert lifecycle.finish_cancel(task.id, run.attempt)
    assert types(task)[-2:] == [EventType.CANCELLING, EventType.CANCELLED]
    item = log(task)[-1].fields()["response"]["output"][0]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "so far")


def test_cancel_of_a_task_that_waits_to_be_resumed_ends_it(client: Client) -> None:
    task, run = running(client, on_restart="resume")
    say(run, "a")
    recover(task, "server_restarted")
    assert lifecycle.cancel(task.id) == Status.CANCELLED
    assert types(task)[-2:] == [EventType.CANCELLING, EventType.CANCELLED]


def test_cancel_against_completion_has_one_winner(client: Client) -> None:
    for _ in range(20):
        task, run = running(client)
        say(run, "a")
        outcome: list[str] = []
        barrier = threading.Barrier(2)

        def complete(run: Run = run, barrier: threading.Barrier = barrier, outcome: list[str] = outcome) -> None:
            barrier.wait()
            try:
                finish(run, "b")
                outcome.append("completed")
            except Fenced:
                pass
            finally:
                connection.close()

        thread = threading.Thread(target=complete)
        thread.start()
        barrier.wait()
        if lifecycle.cancel(task.id) == Status.CANCELLING:
            outcome.append("cancelled")
        thread.join()
        if "cancelled" in outcome:
            lifecycle.finish_cancel(task.id, run.attempt)
        assert len(outcome) == 1
        assert Task.objects.get(pk=task.pk).status == outcome[0]


def test_retry_starts_the_output_anew(client: Client) -> None:
    task, run = running(client, on_restart="retry")
    say(run, "old", " text")
    assert recover(task, "x") == Status.QUEUED
    queued = log(task)[-1]
    assert (queued.type, queued.fields()["attempt"]) == (EventType.QUEUED, 2)
    assert queued.fields()["response"]["output"] == []
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "other", "", loaded=True)
    assert again is not None
    assert again.attempt == 2
    progress = snapshot.load(task.id)
    assert progress is not None
    assert (progress.tokens, progress.prompt) == ([], [1, 2, 3])
    finish(again, "new")
    assert stored_text(task) == "new"


def test_resume_keeps_log_and_journal_and_says_so(client: Client) -> None:
    task, run = running(client, on_restart="resume")
    say(run, "a", "b")
    assert recover(task, "x") == Status.RUNNING
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "other", "", loaded=False, exact=True)
    assert again is not None
    event = log(task)[-1]
    assert event.type == EventType.IN_PROGRESS
    fields = event.fields()
    assert (fields["resumed"], fields["exact"], fields["attempt"]) == (True, True, 2)
    progress = snapshot.load(task.id)
    assert progress is not None
    assert progress.tokens == [100, 101]
    say(again, "c")
    finish(again, "")


def test_claims_without_progress_are_limited(client: Client) -> None:
    task = new_task(client, on_restart="retry")
    for _ in range(5):
        current = Task.objects.get(pk=task.pk)
        assert lifecycle.claim(current, "w", "", loaded=True)
        recover(task, "x")
    assert lifecycle.claim(Task.objects.get(pk=task.pk), "w", "", loaded=True) is None
    task = Task.objects.get(pk=task.pk)
    assert (task.status, task.error_code) == (Status.FAILED, "too_many_attempts")


def test_repeated_failures_wait_longer_before_the_next_claim(client: Client) -> None:
    task = new_task(client, on_restart="retry")
    waits = []
    for _ in range(4):
        current = Task.objects.get(pk=task.pk)
        assert lifecycle.claim(current, "w", "", loaded=True)
        recover(task, "x")
        due = Task.objects.get(pk=task.pk).claimable_at
        waits.append(0.0 if due is None else (due - lifecycle.now()).total_seconds())
    assert waits[0] == 0
    assert waits[1] < waits[2] < waits[3]
    assert Task.objects.count_claimable(9) == 0


def test_an_event_cannot_be_written_outside_the_transaction_of_its_task(client: Client) -> None:
    task = new_task(client)
    with pytest.raises(AssertionError):
        event_log.append(task.id, 2, [Event(EventType.FAILED, {})])
