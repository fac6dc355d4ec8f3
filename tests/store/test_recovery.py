"""Chapter 11.3: what a start of the service makes of unfinished tasks."""

import fcntl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from clients_app.models import Client
from lmsp_site.models import RestartPolicy
from tasks_app import audit, idempotency, lifecycle, ownership, recovery, snapshot, transitions
from tasks_app.idempotency import Claim
from tasks_app.lifecycle import Orphan
from tasks_app.models import IdempotencyKey, Response, Task, TaskEvent
from tasks_app.states import FINISHED, RECOVERY, UNFINISHED, EventType, Status
from tests.store.tasks import log, new_task, put, recover, running, say, stored_text, types

_EVENT = {Status.FAILED: EventType.FAILED, Status.CANCELLED: EventType.CANCELLED}


@pytest.fixture(autouse=True)
def _audited(database: Path) -> Iterator[None]:
    yield
    assert audit.audit(database)["violations"] == []


@pytest.mark.parametrize("policy", list(RestartPolicy))
@pytest.mark.parametrize("status", sorted(UNFINISHED))
def test_R6_left_over_task_goes_where_its_policy_says(client: Client, status: Status, policy: RestartPolicy) -> None:
    task = put(new_task(client, on_restart=policy), status)
    before = types(task)
    recovery.recover_all()
    task = Task.objects.get(pk=task.pk)
    expected = RECOVERY[status][policy]
    assert task.status == expected
    assert task.owner is None
    new = log(task)[len(before) :]
    if expected in FINISHED:
        assert [entry.type for entry in new] == [_EVENT[expected]]
        response = new[0].fields()["response"]
        assert response["status"] == expected
        if expected is Status.FAILED:
            assert task.error_code == "server_restarted"
            assert response["error"]["code"] == "server_restarted"
    elif expected is Status.QUEUED and status is not Status.QUEUED:
        assert [entry.type for entry in new] == [EventType.QUEUED]
        assert new[0].fields()["attempt"] == task.attempt + 1
    else:
        assert new == []


@pytest.mark.parametrize("status", sorted(FINISHED))
def test_finished_tasks_are_left_alone(client: Client, status: Status) -> None:
    task = put(new_task(client), status)
    before = log(task)
    recovery.recover_all()
    assert log(task) == before


def test_a_task_whose_owner_lives_is_not_touched(client: Client) -> None:
    task = new_task(client, on_restart="fail")
    # As a worker does before it claims: another test's work in this process may be long ago.
    ownership.beat()
    lifecycle.claim(task, ownership.own_name(), "", loaded=True)
    recovery.recover_all()
    assert recovery.sweep() == 0
    assert Task.objects.get(pk=task.pk).status == Status.RUNNING


def test_sweep_recovers_the_tasks_of_a_dead_owner_alone(client: Client, database: Path) -> None:
    dead = ownership._directory() / "worker-dead"
    dead.touch()
    orphan, waiting = new_task(client, on_restart="retry"), new_task(client)
    lifecycle.claim(orphan, "worker-dead", "", loaded=True)
    with dead.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert recovery.sweep() == 0
    assert recovery.sweep() == 1
    assert Task.objects.get(pk=orphan.pk).status == Status.QUEUED
    assert types(waiting) == [EventType.CREATED, EventType.QUEUED]


def test_recovery_reads_a_row_that_came_without_its_response(client: Client) -> None:
    """Recovery goes by status and owner, whatever else a row lacks."""
    task = put(new_task(client, on_restart="fail"), Status.RUNNING)
    Task.objects.filter(pk=task.pk).update(owner=None)
    recovery.recover_all()
    assert Task.objects.get(pk=task.pk).status == Status.FAILED


def test_each_of_many_tasks_is_recovered_once(client: Client) -> None:
    """More than one transaction takes."""
    count = recovery._BATCH + 3
    names = [f"{number:026d}" for number in range(count)]
    made = [
        Task(id=f"task_{name}", client=client, model="m", on_restart="fail", last_sequence_number=1) for name in names
    ]
    Task.objects.bulk_create(made)
    Response.objects.bulk_create(Response(id=f"resp_{name}", task_id=f"task_{name}", request={}) for name in names)
    TaskEvent.objects.bulk_create(
        TaskEvent(task=task, sequence_number=number, type=kind, data="{}")
        for task in made
        for number, kind in enumerate((EventType.CREATED, EventType.QUEUED))
    )
    assert recovery.recover_all() == Counter({Status.FAILED: count})
    ends = TaskEvent.objects.filter(sequence_number__gt=1).values_list("task_id", "sequence_number", "type")
    assert sorted(ends) == [(f"task_{name}", 2, EventType.FAILED) for name in names]
    assert recovery.recover_all().total() == 0


def test_each_task_keeps_its_own_output(client: Client) -> None:
    """They are read from the log together."""
    tasks = [running(client, on_restart="fail") for _ in range(3)]
    for turn in range(4):
        for number, (_, run) in enumerate(tasks):
            say(run, f"{number}.{turn} ")
    silent, _ = running(client, on_restart="fail")
    recovery.recover_all()
    for number, (task, _) in enumerate(tasks):
        assert stored_text(task) == "".join(f"{number}.{turn} " for turn in range(4))
    assert stored_text(silent) == ""


def test_what_was_said_before_a_retry_is_no_output(client: Client) -> None:
    task, run = running(client, on_restart="retry")
    say(run, "In vain")
    recover(task, "worker_died")
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True)
    assert again is not None
    say(again, "Anew")
    lifecycle.cancel(task.id)
    recovery.recover_all()
    assert stored_text(task) == "Anew"


def test_the_state_decides_whatever_else_a_row_says(client: Client) -> None:
    """Whoever puts a finished task back by hand may leave the rest of it as it was."""
    queued = new_task(client, on_restart="resume")
    failed = put(new_task(client, on_restart="fail"), Status.RUNNING)
    bystander = put(new_task(client), Status.COMPLETED)
    Task.objects.filter(pk__in=(queued.pk, failed.pk)).update(owner=None, finished_at=bystander.finished_at)
    assert recovery.recover_all() == Counter({Status.QUEUED: 1, Status.FAILED: 1})
    assert Task.objects.next_claimable() == queued
    assert [Task.objects.get(pk=task.pk).status for task in (failed, bystander)] == [Status.FAILED, Status.COMPLETED]


def test_journals_are_forgotten_where_a_task_starts_anew_and_nowhere_else(client: Client) -> None:
    tasks = {}
    for policy in RestartPolicy:
        task, run = running(client, on_restart=policy)
        snapshot.note_run(task.id, 1, "fingerprint")
        say(run, "one", " two")
        tasks[policy] = task.id
    recovery.recover_all()
    kept = {policy: snapshot.load(task_id) for policy, task_id in tasks.items()}
    for policy, progress in kept.items():
        assert progress is not None
        starts_anew = policy is RestartPolicy.RETRY
        assert progress.tokens == ([] if starts_anew else [100, 101])
        assert progress.slot == (None if starts_anew else 1)
        assert progress.fingerprint == ("" if starts_anew else "fingerprint")


def test_the_key_of_each_finished_task_gets_its_response(client: Client) -> None:
    tasks = {}
    for name, policy in (("a", "fail"), ("b", "fail"), ("c", "resume"), ("accepted", "fail")):
        task, run = running(client, on_restart=policy)
        say(run, f"said by {name}")
        claim = Claim.of(client, "/v1/responses", name, {})
        assert claim is not None
        in_background = name == "accepted"
        idempotency.store(claim, task, status=202 if in_background else None, body={} if in_background else None)
        tasks[name] = task
    recovery.recover_all()
    results = {key.key: (key.result_status, key.result_body) for key in IdempotencyKey.objects.all()}
    assert results == {
        "a": (200, log(tasks["a"])[-1].fields()["response"]),
        "b": (200, log(tasks["b"])[-1].fields()["response"]),
        "c": (None, None),
        "accepted": (202, {}),
    }
    assert stored_text(tasks["b"]) == "said by b"


def test_a_task_that_waits_on_is_not_written(client: Client) -> None:
    """A trigger sees every write, also one that changes nothing."""
    waiting = new_task(client, on_restart="retry")
    resumable = put(new_task(client, on_restart="resume"), Status.RUNNING)
    recovery.recover_all()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TRIGGER refusal BEFORE UPDATE ON tasks BEGIN SELECT RAISE(ABORT, 'refused'); END")
    assert recovery.recover_all() == Counter({Status.QUEUED: 1, Status.RUNNING: 1})
    assert types(waiting) == [EventType.CREATED, EventType.QUEUED]
    assert Task.objects.get(pk=resumable.pk).owner is None


def test_a_task_that_is_taken_while_its_recovery_is_planned_is_left_alone(client: Client) -> None:
    """The plans of many tasks are made by another process, which holds no lock."""
    tasks = [put(new_task(client, on_restart="fail"), Status.RUNNING) for _ in range(2)]
    Task.objects.update(owner=None)
    orphans = [Orphan(*row) for row in Task.objects.order_by("id").values_list(*Orphan._fields)]
    plan, went = recovery._plan(orphans)
    assert went == Counter({Status.FAILED: 2})
    assert lifecycle.cancel(tasks[0].id) == Status.CANCELLED
    before = log(tasks[0])

    assert not transitions.carry_out(plan), "nothing of a plan is written where one of its tasks has changed"
    assert Task.objects.get(pk=tasks[1].pk).status == Status.RUNNING
    assert lifecycle.apply_restart_policy(orphans, *recovery._RESTARTED) == {tasks[1].id: Status.FAILED}

    assert log(tasks[0]) == before
    assert [task.status for task in Task.objects.order_by("id")] == [Status.CANCELLED, Status.FAILED]
