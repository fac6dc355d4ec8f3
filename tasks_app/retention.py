"""Removing finished work (R4); unfinished work is never touched (R5), by the statements and by trigger."""

from datetime import UTC, datetime, timedelta

from django.db import transaction

from lmsp_site.models import ServiceConfig
from tasks_app.models import IdempotencyKey, Task, TaskEvent
from tasks_app.states import FINISHED

# Few enough that no writer waits long for the lock.
_BATCH = 20


def forget(task_id: str) -> bool:
    """Delete a finished task with its events, response and snapshot; tell whether there was one.

    An idempotency key keeps the result it has stored and loses its reference to the task.
    """
    _, deleted = Task.objects.filter(pk=task_id, status__in=FINISHED).delete()
    return bool(deleted.get(Task._meta.label))


def purge() -> dict[str, int]:
    """Delete what finished longer ago than the retention allows, and expired idempotency keys.

    Returns:
        ``tasks_deleted``, ``events_deleted`` and ``idempotency_keys_deleted``.
    """
    now = datetime.now(UTC)
    old = Task.objects.filter(
        status__in=FINISHED, finished_at__lt=now - timedelta(days=ServiceConfig.current().retention_days)
    ).order_by("finished_at")
    tasks = events = 0
    while batch := list(old.values_list("pk", flat=True)[:_BATCH]):
        with transaction.atomic():
            _, deleted = Task.objects.filter(pk__in=batch, status__in=FINISHED).delete()
        tasks += deleted.get(Task._meta.label, 0)
        events += deleted.get(TaskEvent._meta.label, 0)
    keys, _ = IdempotencyKey.objects.filter(expires_at__lte=now).delete()
    return {"tasks_deleted": tasks, "events_deleted": events, "idempotency_keys_deleted": keys}
