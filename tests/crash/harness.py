"""The crash harness: the real service under load, its processes killed at random moments, and what must hold then."""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tasks_app import audit
from tests.crash import victims
from tests.crash.callers import Caller, orders
from tests.crash.catalogue import Twin, twins
from tests.crash.deck import EVERYBODY, Deck, stage
from tests.crash.sampler import Sampler
from tests.crash.upkeep import Upkeep
from tests.crash.verdict import Stored, judge, stored
from tests.crash.victims import FATAL, Victim
from tests.service import Service

_VICTIM_PATIENCE_SECONDS = 15.0
_MID_TEXT = (
    "SELECT 1 FROM tasks WHERE status = 'running' AND owner IS NOT NULL AND on_restart = 'resume' AND output_tokens > ?"
)


@dataclass(frozen=True)
class Plan:
    """How hard it is going to be.

    Attributes:
        seed: decides what is ordered, when, and who is killed when.
        rounds: how often everything is begun and waited for.
        minutes: how long, in place of a number of rounds; then some are spared for a while, see `deck`.
        upkeep: whether purges and backups run beside it, and processes and files are looked at.
        tasks: ordered in a round.
        kills: in a round.
        span: seconds over which they are spread.
        limit: seconds after which a round that has not settled is given up.
    """

    seed: int
    rounds: int = 0
    minutes: float = 0.0
    upkeep: bool = False
    tasks: int = 10
    kills: int = 2
    span: float = 4.0
    limit: float = 180.0


@dataclass
class Tally:
    """What has happened in all rounds so far."""

    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    resumed_exactly: int = 0
    from_checkpoints: int = 0
    retried: int = 0
    cancels: int = 0
    readers: int = 0
    interruptions: int = 0
    seconds: float = 0.0
    upkeep: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        counters = {"kills": self.kills, "tasks": self.tasks, "upkeep": self.upkeep}
        return asdict(self) | {name: dict(counter) for name, counter in counters.items()}


class Soak:
    """Runs a plan over one service."""

    def __init__(self, service: Service, http: httpx.Client, plan: Plan) -> None:
        self.tally = Tally()
        self.sampler = Sampler(service)
        self._upkeep = Upkeep(service)
        self._service = service
        self._http = http
        self._plan = plan
        self._twins: dict[str, Twin] = twins(service)
        self._rng = random.Random(plan.seed)
        self._deck = Deck(self._rng)
        self._began = time.monotonic()

    def run(self, after_round: Callable[[Tally], None] = lambda _tally: None) -> Tally:
        """Run all rounds; `after_round` is told how it stands."""
        with ExitStack() as beside:
            if self._plan.upkeep:
                beside.enter_context(self.sampler)
                beside.enter_context(self._upkeep)
            self._began = time.monotonic()
            for number in self._numbers():
                began = time.monotonic()
                self._round(f"{self._plan.seed}.{number}")
                self.tally.rounds += 1
                self.tally.seconds += time.monotonic() - began
                after_round(self.tally)
        if self._plan.upkeep:
            self._upkeep.finish(young=len(self._twins))
            self.tally.upkeep = self._upkeep.done
            self.tally.violations += [*self._upkeep.faults, *self.sampler.faults]
        self.tally.from_checkpoints = len(re.findall(r"from_checkpoint=[1-9]", self._service.log.read_text()))
        return self.tally

    def _numbers(self) -> Iterator[int]:
        for number in count():
            if self._share_done() >= 1 if self._plan.minutes else number >= self._plan.rounds:
                return
            yield number

    def _share_done(self) -> float:
        return (time.monotonic() - self._began) / (60 * self._plan.minutes)

    def _round(self, name: str) -> None:
        abort = threading.Event()
        wanted = orders(self._rng, name, self._plan.tasks, self._plan.span)
        callers = [Caller(self._service, self._http, order, abort) for order in wanted]
        began = time.monotonic()
        for caller in callers:
            caller.start()
        try:
            for moment in sorted(self._rng.uniform(0, self._plan.span) for _ in range(self._plan.kills)):
                abort.wait(max(0.0, began + moment - time.monotonic()))
                self._wait_for_text()
                self._kill(self._deck.deal(stage(self._share_done()) if self._plan.minutes else EVERYBODY))
            stuck = list(self._settle(callers, began + self._plan.limit))
        finally:
            abort.set()
        tasks = stored(self._service, name)
        found = [*stuck, *judge(callers, tasks, self._twins)]
        found += [f"{v['rule']}: {v['task']}: {v['detail']}" for v in self._audit()]
        self.tally.violations += [f"round {name}: {violation}" for violation in found]
        self._count(callers, [task for same in tasks.values() for task in same])
        if self._plan.upkeep and not found:
            self._upkeep.let_go(name)
        if stuck:
            # What hangs must not keep the next round from telling something.
            self._revive()

    def _wait_for_text(self) -> None:
        """Let most kills come in the middle of some text that will have to be resumed, wherever in it."""
        tokens = self._rng.choice([None, 0, *(self._rng.randrange(90) for _ in range(4))])
        if tokens is not None:
            _wait(lambda: self._service.sql(_MID_TEXT, tokens), time.monotonic() + _VICTIM_PATIENCE_SECONDS / 3)

    def _kill(self, victim: Victim) -> None:
        if victim is Victim.EVERYTHING:
            victims.kill_everything(self._service)
        elif victim is Victim.SUPERVISOR:
            self._service.kill()
        elif not self._kill_one(victim):
            return
        elif victim is Victim.LOADING_ENGINE:
            self._kill_one(victim)
        self.tally.kills[victim] += 1
        self.sampler.mark(victim)
        if victim in FATAL:
            self._service.start(ready=False)

    def _kill_one(self, victim: Victim) -> bool:
        """Kill one such process; tell whether there was one before long."""
        killed: list[int] = []

        def strike() -> bool:
            found = victims.find(self._service, victim)
            if found:
                killed.append(self._rng.choice(found))
                victims.kill(killed)
            return bool(killed)

        deadline = time.monotonic() + _VICTIM_PATIENCE_SECONDS
        if not _wait(strike, deadline):
            return False
        return _wait(lambda: killed[0] not in victims.find(self._service, victim), deadline)

    def _settle(self, callers: Sequence[Caller], deadline: float) -> Iterator[str]:
        """Wait until all that should end has ended; yield what has not."""
        if not _wait(self._service.is_ready, deadline):
            yield "the service did not become ready"
        for caller in callers:
            caller.join(max(0.0, deadline - time.monotonic()))
            if caller.is_alive():
                yield f"{caller.name}: its caller was not answered"
        if not _wait(lambda: not self._unfinished(), deadline):
            yield f"unfinished after {self._plan.limit} s: {self._unfinished()}"
        for reader in [caller.reader for caller in callers if caller.reader]:
            reader.join(max(5.0, deadline - time.monotonic()))

    def _unfinished(self) -> list[tuple[Any, ...]]:
        return self._service.sql("SELECT id, status, on_restart, attempt, owner FROM tasks WHERE finished_at IS NULL")

    def _audit(self) -> list[dict[str, Any]]:
        violations: list[dict[str, Any]] = audit.audit(self._service.data_dir / "db.sqlite3")["violations"]
        return violations

    def _revive(self) -> None:
        victims.kill_everything(self._service)
        self._service.start()
        for (task_id,) in self._service.sql("SELECT id FROM tasks WHERE finished_at IS NULL"):
            self._service.request("POST", f"/v1/tasks/{task_id}/cancel")

    def _count(self, callers: Sequence[Caller], tasks: Sequence[Stored]) -> None:
        tally = self.tally
        tally.tasks.update(f"{task.policy}: {task.status}" for task in tasks)
        resumed = [task for task in tasks if task.resumes and task.status == "completed"]
        tally.resumed += len(resumed)
        tally.resumed_exactly += sum(task.equals(self._twins[task.request]) for task in resumed)
        tally.retried += sum(len(task.last_attempt) < len(task.log) - 1 for task in tasks)
        tally.cancels += sum(len(caller.cancel_answers) for caller in callers)
        readers = [caller.reader for caller in callers if caller.reader]
        tally.readers += len(readers)
        tally.interruptions += sum(reader.interruptions for reader in readers)


@contextmanager
def soaking(data_dir: Path, plan: Plan) -> Iterator[Soak]:
    """A service to be tortured, and none of its processes afterwards."""
    # Every resume of more than a few tokens finds a checkpoint, or half of one.
    service = Service(data_dir, LMSP_CHECKPOINT_TOKENS="12")
    # No connection outlives its request: a killed server's would be found broken by the next one.
    limits = httpx.Limits(max_keepalive_connections=0)
    try:
        with service, service.http(limits=limits) as http:
            yield Soak(service, http, plan)
            service.check_log()
    finally:
        victims.kill(service.processes())


def _wait(condition: Callable[[], object], deadline: float) -> bool:
    """Look ten times a second, so that looking takes nothing from the service, until it is true or too late."""
    pause = threading.Event()
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause.wait(0.1)
    return True
