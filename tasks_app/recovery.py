"""What becomes of tasks whose worker is gone (R6, chapter 11.3)."""

import logging
from collections import Counter
from collections.abc import Iterator
from functools import cache

from django.db.models import QuerySet

from tasks_app import lifecycle, ownership, queue
from tasks_app.lifecycle import Orphan
from tasks_app.models import Task
from tasks_app.states import UNFINISHED

logger = logging.getLogger(__name__)

_BATCH = 500
RESTARTED = "The service was restarted before this task had finished."
WORKER_DIED = "The process that ran this task ended before the task had finished."


def recover_all() -> Counter[str]:
    """Apply the restart policy of every task that an earlier service left unfinished.

    To be called before anything serves, while this process holds the data directory: then a task without an
    owner is left over for certain. Tasks whose owner is alive are not touched.

    Returns:
        How many tasks went to which state.
    """
    queue.forget_deliveries()
    is_dead = cache(ownership.is_dead)
    outcome: Counter[str] = Counter()
    for batch in _batches(Task.objects.filter(status__in=UNFINISHED)):
        orphans = [orphan for orphan in batch if orphan.owner is None or is_dead(orphan.owner)]
        went = lifecycle.apply_restart_policy(orphans, "server_restarted", RESTARTED)
        outcome.update(went.values())
        outcome["alive"] += len(batch) - len(orphans)
        logger.info("recovering", extra={"tasks": outcome.total()})
    ownership.forget_dead()
    queue.ring_for_claimable()
    if outcome.total():
        logger.info("recovered", extra={name: count for name, count in outcome.items() if count})
    return outcome


def sweep() -> int:
    """While serving: recover claimed tasks whose worker died alone, and ring for tasks that have no bell.

    Tasks without an owner are none of its business: they wait to be claimed.
    """
    is_dead = cache(ownership.is_dead)
    recovered = 0
    for batch in _batches(Task.objects.claimed().exclude(owner=None)):
        orphans = [orphan for orphan in batch if orphan.owner and is_dead(orphan.owner)]
        went = lifecycle.apply_restart_policy(orphans, "worker_died", WORKER_DIED)
        for task_id, status in went.items():
            logger.warning("worker died", extra={"task": task_id, "to": status})
        recovered += len(went)
    queue.ring_for_claimable()
    return recovered


def _batches(tasks: QuerySet[Task]) -> Iterator[list[Orphan]]:
    rows = tasks.order_by("id").values_list(*Orphan._fields)
    last = ""
    while batch := [Orphan(*row) for row in rows.filter(id__gt=last)[:_BATCH]]:
        yield batch
        last = batch[-1].id
