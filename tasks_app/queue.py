"""The runner, django-q2, behind one file: ringing the bell, hearing it, running the cluster.

The table tasks is the queue. A job carries nothing: it says that there may be something to claim, and the worker
that gets it claims the best task there is, and the next, until nothing is claimable.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import Event, Value
from multiprocessing.sharedctypes import RawValue
from typing import Any

from django.conf import settings
from django.db import connection, connections
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.cluster import Cluster, Sentinel, get_mp_context, worker
from django_q.models import OrmQ, Schedule
from django_q.signals import post_execute_in_worker, post_spawn, pre_execute
from django_q.tasks import async_task

from lmsp_site.processes import end_with_parent
from tasks_app import wakeup
from tasks_app.models import Task
from tasks_app.process_lock import ProcessLock

_JOB = "tasks_app.worker.run_claimable"
_UNHEARD = f"SELECT COUNT(*) FROM (SELECT 1 FROM {OrmQ._meta.db_table} WHERE lock <= %s LIMIT %s) AS bells"  # noqa: S608
# A wake-up can be lost; this is how late its job is then.
_POLL_SECONDS = 0.25

# Shared with every worker that the cluster forks. No lock: a killed worker could not release it.
_stopping = RawValue(ctypes.c_bool, False)
_job_id = ""
_parent = 0


def ring(times: int = 1) -> None:
    """Enqueue a job, in the transaction that makes something claimable.

    Bells that nobody has heard yet are enough when there is one for each worker: whoever hears one comes after
    this transaction and sees what it wrote.
    """
    workers = settings.LMSP.max_running
    for _ in range(min(times, workers - _unheard(workers))):
        async_task(_JOB, q_options={"timeout": -1})
    wakeup.queue_after_commit()


def _unheard(most: int) -> int:
    """Count the bells that nobody has heard yet, up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(_UNHEARD, (connection.ops.adapt_datetimefield_value(timezone.now()), most))
        (count,) = cursor.fetchone()
    return int(count)


def ring_for_claimable() -> None:
    """Enqueue a job for each worker that has something to claim: what became due, or whose bell was lost."""
    if claimable := Task.objects.count_claimable(settings.LMSP.max_running):
        ring(claimable)


def current_job_id() -> str:
    """Return the id of the job that this worker is running."""
    return _job_id


def stopping() -> bool:
    """Tell a worker whether the cluster has been asked to stop."""
    return bool(_stopping.value)


class DoorbellBroker(ORM):  # type: ignore[misc]
    """The ORM broker, woken by a datagram where it would sleep for its poll interval.

    A bell that is heard is gone: were it lost with the process that heard it, the sweep would ring again.
    """

    _listener: wakeup.Listener | None = None

    def dequeue(self) -> Any:
        """Return the next jobs, or wait for the bell."""
        if self._listener is None:
            # Made by the process that waits, which is not the one that made the broker.
            self._listener = wakeup.Listener.for_queue()
            if connection.vendor == "sqlite":
                # Taking a bell need not wait for the disk: one that a power cut rings again finds nothing to do.
                connection.cursor().execute("PRAGMA synchronous=NORMAL")
        bells = self._waiting()
        if not bells and self._listener.wait(_POLL_SECONDS):
            bells = self._waiting()
        return [(pk, job) for pk, job in bells if self.get_connection().filter(pk=pk).delete()[0]]

    def _waiting(self) -> list[tuple[int, str]]:
        waiting = self.get_connection().filter(key=self.list_key, lock__lte=timezone.now())
        return list(waiting.values_list("pk", "payload")[:1])

    def acknowledge(self, task_id: Any) -> None:
        """Do nothing: a job is gone once it was taken."""


class _Guard(Sentinel):  # type: ignore[misc]
    """A guard whose processes can be killed at any moment without taking a lock of the others along.

    An idle worker waits for its job with the lock of all readers in its hand.
    """

    def start(self) -> None:
        """Exchange the locks before anybody is forked who uses them."""
        # For the type checker a lock is one of the library's own.
        self._timers: Any = ProcessLock()
        for shared in (self.task_queue, self.result_queue):
            shared._rlock, shared._wlock = ProcessLock(), ProcessLock()
            counting: Any = ProcessLock()
            shared.size.count = Value("i", 0, lock=counting)
        super().start()

    def spawn_worker(self) -> None:
        """Start a worker, as the original does."""
        timer = Value("f", -1, lock=self._timers)
        self.spawn_process(worker, self.task_queue, self.result_queue, timer, self.timeout)

    def stop(self) -> None:
        """Stop those who live: in a bounded queue nobody would make room for what tells the dead to stop."""
        self.event_out.set()
        self.pusher.join()
        self.pool[:] = [process for process in self.pool if process.is_alive()]
        super().stop()


class _Cluster(Cluster):  # type: ignore[misc]
    """A cluster with such a guard, whose workers learn that it is stopping while they work."""

    def start(self) -> None:
        """Start the guard; whether it lives is asked by ``run_cluster``."""
        self.stop_event, self.start_event = Event(), Event()
        arguments = (self.stop_event, self.start_event, self.cluster_id, self.broker, self.timeout)
        self.sentinel = get_mp_context().Process(target=_Guard, args=arguments)
        self.sentinel.start()

    def sig_handler(self, signum: int, frame: Any) -> None:
        """Raise the flag first: ``stop`` waits for the workers."""
        _stopping.value = True
        super().sig_handler(signum, frame)


def schedule(name: str, function: str, minutes: int) -> None:
    """Have the runner call a function again and again, from its first start on."""
    fields = {"func": function, "schedule_type": Schedule.MINUTES, "minutes": minutes}
    Schedule.objects.update_or_create(name=name, defaults=fields)
    # After the clock was set back, the next time may be years away.
    latest = timezone.now() + timedelta(minutes=minutes)
    Schedule.objects.filter(name=name, next_run__gt=latest).update(next_run=latest)


def run_cluster(in_each_worker: Callable[[], object]) -> None:
    """Run the cluster until SIGTERM or SIGINT.

    Args:
        in_each_worker: called by each worker, once it is a process of its own and before it takes anything.
    """
    # A worker keeps its connection from job to job.
    connections["default"].settings_dict["CONN_MAX_AGE"] = None
    connections.close_all()
    # Killed with -9, the cluster takes its guard, workers and helpers along, whichever of them forked the other.
    os.register_at_fork(before=_remember_parent, after_in_child=_end_with_parent)
    post_spawn.connect(lambda **_: in_each_worker(), weak=False)
    pre_execute.connect(_before_job)
    post_execute_in_worker.connect(_after_job)
    cluster = _Cluster()
    cluster.start()
    while cluster.sentinel.is_alive():
        cluster.sentinel.join(1)
    if not stopping():
        sys.exit("the cluster's guard has died")


def _remember_parent() -> None:
    global _parent
    _parent = os.getpid()


def _end_with_parent() -> None:
    end_with_parent()
    if os.getppid() != _parent:
        os._exit(1)  # It died before the kernel was told.


def _before_job(task: dict[str, Any], **_: Any) -> None:
    global _job_id
    _job_id = task["id"]


def _after_job(task: dict[str, Any], **_: Any) -> None:
    # A bell that found nothing leaves no trace.
    task["save"] = bool(task["result"])
