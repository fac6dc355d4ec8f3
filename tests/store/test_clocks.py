"""Clocks that people set: other time zones, jumps by years, forwards and back."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.utils import timezone
from django_q.models import Schedule

from clients_app.models import Client
from tasks_app import audit, idempotency, lifecycle, queue, recovery, retention
from tasks_app.idempotency import Claim
from tasks_app.models import IdempotencyKey, Task
from tasks_app.states import UNFINISHED, Status
from tests.store.tasks import finish, log, new_task, put, recover, running, say

# Thirty days on, Los Angeles has left daylight saving time.
_TODAY = datetime(2026, 10, 20, 7, 30, tzinfo=UTC)
_YEARS = timedelta(days=3653)


def _violations() -> list[dict[str, str]]:
    found: list[dict[str, str]] = audit.audit(connection.settings_dict["NAME"])["violations"]
    return found


@pytest.fixture(params=["Pacific/Kiritimati", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """A time zone at the edge of the world, as the machine's own."""
    before = os.environ["TZ"]
    os.environ["TZ"] = request.param
    time.tzset()
    assert time.timezone != 0
    yield request.param
    os.environ["TZ"] = before
    time.tzset()


def test_R4_the_period_is_the_same_in_all_time_zones(client: Client, zone: str) -> None:
    with time_machine.travel(_TODAY, tick=False):
        task, run = running(client)
        finish(run, "the end")
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(finished_at AS TEXT) FROM tasks")
        assert cursor.fetchone() == ("2026-10-20 07:30:00",)
    for days, deleted in ((29.999, 0), (30.001, 1)):
        with time_machine.travel(_TODAY + timedelta(days=days)):
            assert retention.purge()["tasks_deleted"] == deleted
    assert not Task.objects.filter(pk=task.pk).exists()


@pytest.mark.parametrize("status", sorted(UNFINISHED))
def test_R5_no_jump_of_the_clock_touches_an_unfinished_task(client: Client, zone: str, status: Status) -> None:
    with time_machine.travel(_TODAY):
        task = put(new_task(client), status)
        before = log(task)
    for jump in (_YEARS, -_YEARS):
        with time_machine.travel(_TODAY + jump):
            assert retention.purge()["tasks_deleted"] == 0
    assert log(task) == before
    assert Task.objects.get(pk=task.pk).status == status


def test_a_clock_that_is_set_back_while_a_task_runs_takes_nothing_of_its_period(client: Client) -> None:
    with time_machine.travel(_TODAY):
        task, run = running(client)
    with time_machine.travel(_TODAY - _YEARS):
        say(run, "Once ")
        finish(run, "the end")
        assert Task.objects.get(pk=task.pk).finished_at == Task.objects.get(pk=task.pk).started_at
    with time_machine.travel(_TODAY + timedelta(days=1)):
        assert retention.purge()["tasks_deleted"] == 0
    assert _violations() == []


def test_a_key_is_kept_for_its_time_by_whatever_clock_there_is(client: Client, zone: str) -> None:
    with time_machine.travel(_TODAY):
        claim = Claim.of(client, "POST /v1/tasks", "key", {})
        assert claim is not None
        idempotency.store(claim, new_task(client), status=202, body={})
    found = {}
    for hours in (-24 * 3650, 0, 23.99, 24.01):
        with time_machine.travel(_TODAY + timedelta(hours=hours)):
            found[hours] = idempotency.find(claim) is not None
    assert found == {-24 * 3650: True, 0: True, 23.99: True, 24.01: False}
    with time_machine.travel(_TODAY - _YEARS):
        assert retention.purge()["idempotency_keys_deleted"] == 0
    with time_machine.travel(_TODAY + _YEARS):
        # It is free again, without a purge before, and then another's.
        idempotency.store(claim, other := new_task(client), status=202, body={})
        assert IdempotencyKey.objects.get().task_id == other.pk


def test_a_deadline_is_a_moment_and_not_a_time_of_day(client: Client, zone: str) -> None:
    with time_machine.travel(_TODAY):
        task = new_task(client, expires_at=_TODAY + timedelta(hours=1))
    for hours in (-24 * 3650, 0.99):
        with time_machine.travel(_TODAY + timedelta(hours=hours)):
            recovery.sweep()
            assert Task.objects.next_claimable() == task
    with time_machine.travel(_TODAY + timedelta(hours=1.01)):
        assert Task.objects.next_claimable() is None
        recovery.sweep()
    with time_machine.travel(_TODAY):
        task.refresh_from_db()
        assert (task.status, task.error_code) == (Status.FAILED, "expired")
        assert not lifecycle.fail(task.pk, "expired", "again")
    assert _violations() == []


def test_a_task_that_is_tried_again_does_not_wait_for_a_clock_that_was_set_back(client: Client) -> None:
    with time_machine.travel(_TODAY, tick=False):
        task = new_task(client, on_restart="retry")
        for _ in range(3):
            run = lifecycle.claim(Task.objects.get(pk=task.pk), "somebody", "job", loaded=True)
            assert run is not None
            recover(task, "engine_died")
        assert Task.objects.next_claimable() is None, "its delay grows from try to try"
    with time_machine.travel(_TODAY - timedelta(hours=1)):
        assert Task.objects.next_claimable() == task


def test_the_purge_is_due_soon_after_the_clock_was_set_back(client: Client) -> None:
    with time_machine.travel(_TODAY + _YEARS):
        queue.schedule("retention", "tasks_app.retention.purge_on_schedule", minutes=5)
        Schedule.objects.update(next_run=timezone.now() + timedelta(minutes=5))
    with time_machine.travel(_TODAY):
        queue.schedule("retention", "tasks_app.retention.purge_on_schedule", minutes=5)
        assert Schedule.objects.get().next_run <= timezone.now() + timedelta(minutes=5)
