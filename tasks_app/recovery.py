"""What becomes of tasks whose worker is gone (R6, chapter 11.3)."""

import logging
from collections import Counter
from collections.abc import Iterator

from django.db import transaction

from tasks_app import lifecycle, ownership, queue
from tasks_app.models import Task
from tasks_app.states import UNFINISHED

logger = logging.getLogger(__name__)

_BATCH = 200
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
    outcome: Counter[str] = Counter()
    for batch in _batches():
        with transaction.atomic():
            for task in batch:
                if task.owner and not ownership.is_dead(task.owner):
                    outcome["alive"] += 1
                elif new := lifecycle.apply_restart_policy(task, "server_restarted", RESTARTED):
                    outcome[new] += 1
                    logger.info(
                        "recovered",
                        extra={"task": task.id, "from": task.status, "to": new, "on_restart": task.on_restart},
                    )
    ownership.forget_dead()
    queue.ring_for_claimable()
    if outcome:
        logger.info("recovery finished", extra=dict(outcome))
    return outcome


def sweep() -> int:
    """While serving: recover claimed tasks whose worker died alone, and ring for tasks that have no bell.

    Tasks without an owner are none of its business: they wait to be claimed.
    """
    recovered = 0
    for task in Task.objects.claimed().exclude(owner=None):
        if task.owner and ownership.is_dead(task.owner):
            new = lifecycle.apply_restart_policy(task, "worker_died", WORKER_DIED)
            logger.warning("worker died", extra={"task": task.id, "owner": task.owner, "to": new})
            recovered += 1
    queue.ring_for_claimable()
    return recovered


def _batches() -> Iterator[list[Task]]:
    last = ""
    while batch := list(Task.objects.filter(status__in=UNFINISHED, id__gt=last).order_by("id")[:_BATCH]):
        yield batch
        last = batch[-1].id
