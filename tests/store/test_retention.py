"""R4, R5: what finished long ago is removed in short transactions, and nothing else ever is."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from clients_app.models import Client
from lmsp_site.models import ServiceConfig
from tasks_app import audit, event_log, lookup, retention
from tasks_app.idempotency import Claim, store
from tasks_app.models import IdempotencyKey, JournalEntry, Response, Snapshot, Task, TaskEvent
from tasks_app.states import FINISHED, UNFINISHED, EventType, Status
from tests.store.tasks import finish, log, new_task, put, running, say


def _age(task: Task, days: float) -> None:
    Task.objects.filter(pk=task.pk).update(finished_at=timezone.now() - timedelta(days=days))


def _finished(client: Client, days: float, words: int = 3) -> Task:
    task, run = running(client)
    say(run, *(f"word {number} " for number in range(words)))
    finish(run, "the end")
    _age(task, days)
    return Task.objects.get(pk=task.pk)


@pytest.mark.parametrize("status", sorted(FINISHED))
def test_R4_the_period_is_counted_from_the_end(client: Client, status: Status) -> None:
    old, young = (put(new_task(client), status) for _ in range(2))
    # Created at the same moment, long ago: only the end counts.
    Task.objects.update(created_at=timezone.now() - timedelta(days=400))
    _age(old, 30.01)
    _age(young, 29.99)
    assert retention.purge()["tasks_deleted"] == 1
    assert list(Task.objects.values_list("pk", flat=True)) == [young.pk]


@pytest.mark.parametrize("status", sorted(UNFINISHED))
def test_R5_no_unfinished_task_is_purged_whatever_the_clock_says(client: Client, status: Status) -> None:
    task = put(new_task(client), status)
    before = log(task)
    for moment in ("1990-01-01", "2090-01-01"):
        with time_machine.travel(datetime.fromisoformat(moment).replace(tzinfo=UTC)):
            assert retention.purge()["tasks_deleted"] == 0
    assert log(task) == before
    # Not even where a hand has given it an end.
    Task.objects.filter(pk=task.pk).update(finished_at=timezone.now() - timedelta(days=99))
    assert retention.purge()["tasks_deleted"] == 0
    assert not retention.forget(task.pk)
    assert Task.objects.get(pk=task.pk).purged_at is None


def test_the_period_is_read_at_each_purge(client: Client) -> None:
    _finished(client, days=5)
    assert retention.purge()["tasks_deleted"] == 0
    ServiceConfig.objects.update(retention_days=4)
    assert retention.purge()["tasks_deleted"] == 1


def test_everything_of_a_task_goes_with_it_and_its_key_keeps_the_result(client: Client) -> None:
    task = _finished(client, days=31)
    kept = _finished(client, days=1)
    claim = Claim.of(client, "POST /v1/tasks", "key", {})
    assert claim is not None
    store(claim, task, status=202, body={"id": task.id})
    events = len(log(task))
    assert retention.purge() == {
        "tasks_deleted": 1,
        "events_deleted": events,
        "idempotency_keys_deleted": 0,
        "pairings_deleted": 0,
        "bytes_freed": 0,
    }
    for model, key in ((TaskEvent, "task"), (Response, "task"), (Snapshot, "task"), (JournalEntry, "snapshot")):
        assert set(model._default_manager.values_list(key, flat=True)) == {kept.pk}
    kept_key = IdempotencyKey.objects.get()
    assert (kept_key.task_id, kept_key.result_body) == (None, {"id": task.id})


def test_every_table_that_belongs_to_tasks_is_purged() -> None:
    belonging = {relation.field.model._meta.db_table for relation in Task._meta.related_objects}
    belonging |= {relation.field.model._meta.db_table for relation in Snapshot._meta.related_objects}
    purged = {table for table, _ in (*retention._MANY_OF_A_TASK, *retention._ONE_OF_A_TASK)}
    assert belonging - {IdempotencyKey._meta.db_table} == purged


def test_expired_keys_go(client: Client) -> None:
    for name, hours in (("old", -1), ("young", 1)):
        claim = Claim.of(client, "POST /v1/tasks", name, {})
        assert claim is not None
        store(claim, new_task(client), status=202, body={})
        IdempotencyKey.objects.filter(key=name).update(expires_at=timezone.now() + timedelta(hours=hours))
    assert retention.purge()["idempotency_keys_deleted"] == 1
    assert IdempotencyKey.objects.get().key == "young"


def test_many_tasks_go_in_transactions_of_few_rows(client: Client) -> None:
    for _ in range(30):
        _finished(client, days=31, words=20)
    sizes: list[int] = []

    def may_go_on() -> bool:
        sizes.append(TaskEvent.objects.count())
        return True

    events = TaskEvent.objects.count()
    assert retention.purge(may_go_on)["tasks_deleted"] == 30
    steps = [before - after for before, after in pairwise(sizes) if before != after]
    assert sum(steps) == events
    assert len(steps) > 1
    assert max(steps) <= retention._MOST_ROWS


@pytest.fixture
def huge(client: Client) -> Task:
    """A task whose rows fit into no transaction of a purge."""
    return _huge(client)


def _huge(client: Client) -> Task:
    task, run = running(client)
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(sequence_number) FROM task_events WHERE task_id = %s", [task.id])
        (last,) = cursor.fetchone()
        rows = [(task.id, last + 1 + n, EventType.OUTPUT_TEXT_DELTA, '{"delta":""}', 0) for n in range(3000)]
        cursor.executemany(event_log._INSERT, rows)
    Task.objects.filter(pk=task.pk).update(last_sequence_number=last + 3000)
    finish(run, "the end")
    _age(task, 31)
    return Task.objects.get(pk=task.pk)


def test_a_task_of_many_rows_is_hidden_and_removed_piece_by_piece(client: Client, huge: Task) -> None:
    before = TaskEvent.objects.count()
    left = iter([True, True, False])
    deleted = retention.purge(lambda: next(left, False))
    assert deleted["tasks_deleted"] == 0
    assert 0 < deleted["events_deleted"] < before
    # Half of a log is shown to nobody, and no fault is found with it.
    assert not Task.objects.of(client).filter(pk=huge.pk).exists()
    with pytest.raises(Exception, match="There is no task"):
        lookup.task(client, huge.pk)
    assert audit.audit(connection.settings_dict["NAME"])["violations"] == []
    # The next purge ends what this one began, also where the period has grown meanwhile.
    ServiceConfig.objects.update(retention_days=3000)
    assert retention.purge()["tasks_deleted"] == 1
    assert TaskEvent.objects.count() == 0


def test_a_hidden_task_that_has_not_finished_is_a_violation(client: Client) -> None:
    task = new_task(client)
    Task.objects.filter(pk=task.pk).update(purged_at=timezone.now())
    found = audit.audit(connection.settings_dict["NAME"])["violations"]
    assert [violation["rule"] for violation in found] == ["unfinished_task_is_kept"]


def test_a_task_that_is_forgotten_is_gone_at_once(client: Client, huge: Task) -> None:
    assert retention.forget(huge.pk)
    assert not Task.objects.filter(pk=huge.pk).exists()
    assert not retention.forget(huge.pk)


def test_two_who_forget_a_task_at_once_both_come_to_an_end(huge: Task) -> None:
    def forget(_number: int) -> bool:
        try:
            return retention.forget(huge.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as both:
        assert any(both.map(forget, range(2), timeout=60))
    assert not Task.objects.filter(pk=huge.pk).exists()


def test_of_two_purges_at_once_neither_ends_before_all_is_gone(client: Client) -> None:
    """The runner's and the command's; both go for the task that is hidden, and one of them finds it gone."""
    for _ in range(3):
        _huge(client)

    def purge(_number: int) -> int:
        try:
            retention.purge()
            return Task.objects.count()
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as both:
        assert list(both.map(purge, range(2), timeout=120)) == [0, 0]


def test_free_space_goes_back_to_the_disk(client: Client) -> None:
    task, run = running(client)
    with connection.cursor() as cursor:
        data = '{"delta":"' + "x" * 1000 + '"}'
        rows = [(task.id, 10 + n, EventType.OUTPUT_TEXT_DELTA, data, 0) for n in range(4000)]
        cursor.executemany(event_log._INSERT, rows)
    Task.objects.filter(pk=task.pk).update(last_sequence_number=4009)
    finish(run, "the end")
    _age(task, 31)

    before = retention._pragma("page_count")
    freed = retention.purge()["bytes_freed"]
    assert freed > 3_000_000
    assert (before - retention._pragma("page_count")) * retention._pragma("page_size") == freed
    assert retention._pragma("freelist_count") <= retention._FREE_PAGES_KEPT


def test_a_scheduled_purge_leaves_its_worker_to_waiting_tasks(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        _finished(client, days=31, words=40)
    monkeypatch.setattr(retention, "_LEAST_SECONDS", 0.0)
    waiting = new_task(client)
    assert retention.purge_on_schedule() is None
    Task.objects.filter(pk=waiting.pk).update(claimable_at=timezone.now() + timedelta(minutes=9))
    deleted = retention.purge_on_schedule()
    assert deleted is not None
    assert deleted["tasks_deleted"] == 5
    assert retention.purge_on_schedule() is None, "a purge that found nothing leaves no record"
