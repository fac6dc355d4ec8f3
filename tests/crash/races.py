"""Cancel races in one process: threads with their own connections go for the same task, and one of them gets it.

In each race a cancel meets what it can meet in a task's life. What every contestant was told must be what the log says,
and the log must have one ending.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections, transaction

from clients_app.models import Client
from tasks_app import audit, event_log, lifecycle
from tasks_app.lifecycle import Fenced, Orphan, Run
from tasks_app.models import Task
from tasks_app.states import TERMINAL_EVENTS, EventType, Status
from tests.store.tasks import finish, new_task, say

_BATCH = 250
_LONGEST_HEAD_START_SECONDS = 0.002


@dataclass
class Outcome:
    """Who won how often, and what should not have happened."""

    winners: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"races": self.winners.total(), "winners": dict(self.winners)}


@dataclass
class _Race:
    """One task, and those who go for it; each returns what it was told."""

    name: str
    task_id: str
    contestants: list[Callable[[], str]]
    head_starts: list[float]
    start: threading.Barrier
    told: list[str] = field(default_factory=list)

    def run(self, place: int) -> None:
        self.start.wait(60)
        threading.Event().wait(self.head_starts[place])
        self.told.append(self.contestants[place]())


def race(seed: int, count: int) -> Outcome:
    """Run `count` races on the database of this process's settings."""
    call_command("migrate", verbosity=0)
    paired, _ = Client.pair("races", ["tasks:write"])
    outcome = Outcome()
    rng = random.Random(seed)
    for first in range(0, count, _BATCH):
        races = _prepare(paired, rng, min(_BATCH, count - first))
        _run(races)
        for one in races:
            outcome.winners[f"{one.name}: {_judge(one, outcome.violations)}"] += 1
    found = audit.audit(settings.LMSP.database)["violations"]
    outcome.violations += [f"{v['rule']}: {v['task']}: {v['detail']}" for v in found]
    connections.close_all()
    return outcome


def _prepare(paired: Client, rng: random.Random, count: int) -> list[_Race]:
    races = []
    with transaction.atomic():  # One for all: it is the races that should take the time.
        for _ in range(count):
            name = rng.choice(list(_RIVALS))
            task = new_task(paired, on_restart="retry")
            rivals = list(_RIVALS[name](task))
            rivals += [partial(_cancel, task)] * rng.choice([1, 1, 2])
            rng.shuffle(rivals)
            late = [rng.choice([0.0, 0.0, rng.uniform(0, _LONGEST_HEAD_START_SECONDS)]) for _ in rivals]
            races.append(_Race(name, task.id, rivals, late, threading.Barrier(len(rivals))))
    return races


def _run(races: list[_Race]) -> None:
    def one_thread(place: int) -> None:
        try:
            for one in races:
                if place < len(one.contestants):
                    one.run(place)
        finally:
            connection.close()

    places = max(len(one.contestants) for one in races)
    with ThreadPoolExecutor(places) as threads:
        for finished in [threads.submit(one_thread, place) for place in range(places)]:
            finished.result()


# What a cancel can meet. Each rival returns what it was told: the state it has brought about, or "too late".


def _cancel(task: Task) -> str:
    return f"cancel: {lifecycle.cancel(task.id)}"


def _completion(task: Task) -> Iterator[Callable[[], str]]:
    run = _claimed(task, loaded=True)
    say(run, "Once")
    yield lambda: _as_worker(run, lambda: finish(run, " upon a time."), "completed")


def _failure(task: Task) -> Iterator[Callable[[], str]]:
    run = _claimed(task, loaded=True)

    def fail() -> str:
        if lifecycle.fail(task.id, "engine_error", "gone", attempt=run.attempt):
            return "failed"
        lifecycle.finish_cancel(task.id, run.attempt)
        return "too late"

    yield fail


def _progress(task: Task) -> Iterator[Callable[[], str]]:
    """A worker that commits again and again: the cancel comes between two commits."""
    run = _claimed(task, loaded=True)

    def generate() -> None:
        for _ in range(3):
            say(run, " more")
        finish(run, ".")

    yield lambda: _as_worker(run, generate, "completed")


def _loading(task: Task) -> Iterator[Callable[[], str]]:
    run = _claimed(task, loaded=False)

    def load() -> None:
        lifecycle.start(run)
        finish(run, "Loaded.")

    yield lambda: _as_worker(run, load, "completed")


def _claims(task: Task) -> Iterator[Callable[[], str]]:
    """Two workers want a waiting task while it is cancelled."""
    waiting = Task.objects.get(pk=task.pk)

    def claim(owner: str) -> str:
        run = lifecycle.claim(waiting, owner, "", loaded=True)
        return _as_worker(run, lambda: finish(run, "Claimed."), "completed") if run else "too late"

    yield lambda: claim("one")
    yield lambda: claim("two")


def _recovery(task: Task) -> Iterator[Callable[[], str]]:
    """The worker is dead: a sweep gives the task back while it is cancelled, and nobody else finishes that."""
    _claimed(task, loaded=True)

    def sweep() -> str:
        while True:
            orphan = Orphan(*Task.objects.values_list(*Orphan._fields).get(pk=task.pk))
            if orphan.owner is None:
                return "too late"
            went = lifecycle.apply_restart_policy([orphan], "worker_died", "gone")
            if went:
                # A retry waits in the queue from now on; the cancel may end it there, or it is taken out here.
                return "failed" if lifecycle.fail(task.id, "worker_died", "gone") else "too late"

    yield sweep


_RIVALS: dict[str, Callable[[Task], Iterator[Callable[[], str]]]] = {
    "completion": _completion,
    "failure": _failure,
    "progress": _progress,
    "loading": _loading,
    "two claims": _claims,
    "recovery": _recovery,
}


def _claimed(task: Task, *, loaded: bool) -> Run:
    run = lifecycle.claim(Task.objects.get(pk=task.pk), "somebody", "", loaded=loaded)
    assert run is not None
    return run


def _as_worker(run: Run, work: Callable[[], None], told: str) -> str:
    """Do as a worker does: whoever is fenced off finishes the cancel that did it."""
    try:
        work()
    except Fenced:
        lifecycle.finish_cancel(run.task_id, run.attempt)
        return "too late"
    return told


def _judge(one: _Race, violations: list[str]) -> str:
    """Return how the race ended, and note what was told to somebody and is not so."""
    kinds = [EventType(entry.type) for entry in event_log.read(one.task_id)]
    status = Task.objects.get(pk=one.task_id).status
    endings = [kind for kind in kinds if kind in TERMINAL_EVENTS]
    won = [told for told in one.told if not told.startswith("cancel: ") and told != "too late"]
    cancels = {told.removeprefix("cancel: ") for told in one.told if told.startswith("cancel: ")}
    true_cancels = {"cancelled", "cancelling"} if status == Status.CANCELLED else {status}
    whole = len(one.told) == len(one.contestants) and len(endings) == 1 and kinds[-1] is endings[0]
    agreed = won == ([] if status == Status.CANCELLED else [status]) and cancels <= true_cancels
    if not (whole and agreed):
        violations.append(f"race {one.name}: {one.task_id} is {status}, told {one.told}, log {[*map(str, kinds)]}")
    return status
