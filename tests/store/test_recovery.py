"""Chapter 11.3: what a start of the service makes of unfinished tasks."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients_app.models import Client
from lmsp_site.models import RestartPolicy
from tasks_app import audit, lifecycle, ownership, recovery
from tasks_app.models import Task
from tasks_app.states import FINISHED, RECOVERY, UNFINISHED, EventType, Status
from tests.store.tasks import log, new_task, put, types

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
