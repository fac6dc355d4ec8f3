"""What becomes of tasks whose worker is gone (R6, chapter 11.3)."""

import gc
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from shutil import disk_usage

from django.conf import settings
from django.db import connection, connections, transaction
from django.db.models import Q, QuerySet

from clients_app.models import Client
from lmsp_site import wal
from lmsp_site.models import RestartPolicy
from lmsp_site.processes import end_with_parent
from tasks_app import checkpoints, lifecycle, ownership, queue, revoked
from tasks_app.lifecycle import Orphan
from tasks_app.models import Task
from tasks_app.states import RECOVERY, UNFINISHED, Status
from tasks_app.transitions import Plan, carry_out

logger = logging.getLogger(__name__)

# A transaction each: so large that few wait for the disk, so small that memory holds what they write.
_BATCH = 5000
_PROGRESS_SECONDS = 1.0
# Tasks for which chapter 11.3 has nothing to do: they wait, and nobody has them.
_STAYS = Q(
    status=Status.QUEUED,
    on_restart__in=[policy for policy in RestartPolicy if RECOVERY[Status.QUEUED][policy] is Status.QUEUED],
    owner__isnull=True,
    progress__isnull=True,
)
# No commit waits for the disk, and 64 MB of pages stay in memory.
_QUICK = {"synchronous": 1, "cache_size": -65536}
# Where there is room for it, the log grows to the end, at most to twice the database; else it is brought home at 32 MB.
_ROOM, _SHORT_LOG_PAGES = 3, 8192
# Of a worker that holds a task: it waits up to 20 s for the database's lock, and shows itself every second otherwise.
_LONGEST_SILENCE_SECONDS = 45.0
_RESTARTED = ("server_restarted", "The service was restarted before this task had finished.")
EXPIRED = "The task's deadline, expires_at, passed before it had finished."
WORKER_DIED = "The process that ran this task ended before the task had finished."


def recover_all() -> Counter[str]:
    """Apply the restart policy of every task that an earlier service left unfinished.

    To be called before anything serves, while this process holds the data directory: then a task without an
    owner is left over for certain. Tasks whose owner is alive are not touched.

    Returns:
        How many tasks went to which state.
    """
    is_dead = cache(ownership.is_dead)
    left_over = [*_orphans(Task.objects.unfinished().exclude(_STAYS)), *_orphans(_put_back())]
    orphans = [orphan for orphan in left_over if orphan.owner is None or is_dead(orphan.owner)]
    outcome: Counter[str] = Counter(alive=len(left_over) - len(orphans))
    outcome[Status.QUEUED] = Task.objects.unfinished().filter(_STAYS).count()
    total, told = outcome.total() + len(orphans), time.monotonic()
    batches = [orphans[first : first + _BATCH] for first in range(0, len(orphans), _BATCH)]
    with _planned(batches) as plans, _quick_writes():
        for batch, (plan, went) in zip(batches, plans, strict=True):
            outcome.update(went if carry_out(plan) else lifecycle.apply_restart_policy(batch, *_RESTARTED).values())
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                logger.info("recovering", extra={"done": outcome.total(), "total": total})
        with transaction.atomic():
            queue.ring_for_claimable()
    ownership.forget_dead()
    checkpoints.sweep()
    if outcome.total():
        logger.info("recovered", extra={name: count for name, count in outcome.items() if count})
    return outcome


def sweep() -> int:
    """While serving: recover claimed tasks whose worker died alone, and ring for what has no bell.

    Tasks that have expired fail; those of revoked clients are cancelled.
    Tasks without an owner are none of its business: they wait to be claimed.
    """
    is_dead = cache(ownership.is_dead)
    held = _orphans(Task.objects.claimed().exclude(owner=None))
    orphans = [orphan for orphan in held if orphan.owner and is_dead(orphan.owner)]
    recovered = lifecycle.apply_restart_policy(orphans, "worker_died", WORKER_DIED)
    for task_id, status in recovered.items():
        logger.warning("worker died", extra={"task": task_id, "to": status})
    for task_id in Task.objects.expired().values_list("pk", flat=True)[:_BATCH]:
        if lifecycle.fail(task_id, "expired", EXPIRED):
            logger.info("expired", extra={"task": task_id})
    revoked.cancel_some()
    _end_hung({orphan.owner for orphan in held if orphan.owner and not is_dead(orphan.owner)})
    checkpoints.sweep()
    queue.ring_for_claimable()
    return len(recovered)


def _end_hung(owners: Collection[str]) -> None:
    """Kill workers that hold a task and do not work; the next sweep finds them dead."""
    for owner in owners:
        silence = ownership.silence(owner)
        if silence > _LONGEST_SILENCE_SECONDS:
            logger.error("worker hangs and is killed", extra={"owner": owner, "silence": round(silence, 1)})
            ownership.kill(owner)


def _put_back() -> QuerySet[Task]:
    """Return tasks that had finished and whose state somebody has changed by hand: the state decides."""
    # By client, as the index of finished tasks has them.
    clients = list(Client.objects.values_list("pk", flat=True))
    return Task.objects.filter(client__in=clients, status__in=UNFINISHED, finished_at__isnull=False)


def _orphans(tasks: QuerySet[Task]) -> list[Orphan]:
    # All at once: asked for one batch after the other, the database would look through all of them each time.
    return list(map(Orphan._make, tasks.order_by("id").values_list(*Orphan._fields)))


@contextmanager
def _planned(batches: Sequence[list[Orphan]]) -> Iterator[Iterator[tuple[Plan, Counter[str]]]]:
    """Make the plan of each batch; of several, in a process that makes the next while this one writes the last."""
    if len(batches) < 2:
        yield map(_plan, batches)
        return
    # SQLite's connections must not be taken across a fork.
    connections.close_all()
    with ProcessPoolExecutor(1, get_context("fork"), _become_planner) as planner:
        first = planner.submit(_plan, batches[0])

        def plans() -> Iterator[tuple[Plan, Counter[str]]]:
            made = first
            for batch in batches[1:]:
                after = planner.submit(_plan, batch)
                yield made.result()
                made = after
            yield made.result()

        yield plans()


def _become_planner() -> None:
    """Begin as the process that makes plans: it must not outlive the one that holds the data directory."""
    end_with_parent()
    # It would look through all of a batch again and again, and there are no cycles in it.
    gc.disable()
    if connection.vendor == "sqlite":
        # All plans are made from one moment: what the plans' writer adds to the log need not be looked through.
        connection.cursor().execute("BEGIN DEFERRED")


def _plan(batch: list[Orphan]) -> tuple[Plan, Counter[str]]:
    """Return a batch's plan and how many of its tasks go where; without its changes, which need not travel."""
    plan = lifecycle.plan_restart_policy(batch, *_RESTARTED)
    return plan._replace(changes=[]), Counter(change.status for change in plan.changes)


@contextmanager
def _quick_writes() -> Iterator[None]:
    """Wait for the disk once, before anything serves: what a power cut takes until then is recovered again."""
    if connection.vendor != "sqlite":
        yield
        return
    database: Path = settings.LMSP.database
    has_room = disk_usage(database.parent).free > _ROOM * database.stat().st_size
    with connection.cursor() as cursor:
        for name, value in _QUICK.items():
            cursor.execute(f"PRAGMA {name}={value}")
        cursor.execute(f"PRAGMA wal_autocheckpoint={0 if has_room else _SHORT_LOG_PAGES}")
    try:
        yield
    finally:
        wal.settle(database)
        # The next one is as settings.py has it.
        connection.close()
