"""Whom the crash tests kill: the processes of a running service by what they are to it."""

import os
import signal
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from tests.service import Service, eventually


class Victim(StrEnum):
    """A part of the service that is killed with -9."""

    BUSY_WORKER = "busy worker"
    IDLE_WORKER = "idle worker"
    HELPER = "pusher or monitor"
    GUARD = "cluster guard"
    CLUSTER = "cluster main"
    ENGINE = "engine"
    LOADING_ENGINE = "engine, and the next while it loads"
    HOST = "engine host"
    WEB = "daphne"
    SUPERVISOR = "supervisor"
    EVERYTHING = "everything at once"


# After these there is no service any more: somebody has to start it again.
FATAL = frozenset({Victim.SUPERVISOR, Victim.EVERYTHING})


def find(service: Service, victim: Victim) -> list[int]:
    """Return the processes that are `victim` now; of several, any one may be killed, and of EVERYTHING all are."""
    assert service.process is not None
    match victim:
        case Victim.EVERYTHING:
            return service.processes()
        case Victim.SUPERVISOR:
            return [service.process.pid]
        case Victim.ENGINE | Victim.LOADING_ENGINE:
            return _called(service, "models_app.engines.process")
        case Victim.HOST:
            return _called(service, "models_app.engines.host")
        case Victim.WEB:
            return _called(service, "daphne")
        case _:
            return _of_cluster(service, victim)


def kill(pids: list[int]) -> None:
    """Kill -9; what has ended meanwhile was faster."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_everything(service: Service) -> None:
    """Kill every process of the service until there is none."""
    assert service.process is not None

    def all_gone() -> bool:
        # Again and again: one may have started another between the look and the kill.
        living = service.processes()
        kill(living)
        return not living

    kill(service.processes())
    service.process.wait()
    eventually(all_gone, 20, "every process is gone")


def _of_cluster(service: Service, victim: Victim) -> list[int]:
    """Tell the cluster's processes apart: main forks the guard, the guard forks workers, pusher and monitor."""
    assert service.process is not None
    parents = {pid: _parent(pid) for pid in _called(service, "run_workers")}
    main = [pid for pid, parent in parents.items() if parent == service.process.pid]
    guard = [pid for pid, parent in parents.items() if parent in main]
    forked = [pid for pid, parent in parents.items() if parent in guard]
    if victim is Victim.CLUSTER:
        return main
    if victim is Victim.GUARD:
        return guard
    # A worker has a name, by which it can be proven dead, as long as it lives.
    workers = {pid for pid in forked if list((service.data_dir / "run" / "owners").glob(f"worker-{pid}-*"))}
    if victim is Victim.HELPER:
        # Until all workers have their names, nobody can be told from them.
        return sorted(set(forked) - workers) if len(forked) - len(workers) == 2 else []
    owners = service.sql("SELECT owner FROM tasks WHERE owner IS NOT NULL AND finished_at IS NULL")
    busy = workers & {int(owner.split("-")[1]) for (owner,) in owners}
    return sorted(busy if victim is Victim.BUSY_WORKER else workers - busy)


def _called(service: Service, name: str) -> list[int]:
    return [pid for pid in service.processes() if name.encode() in _read(pid, "cmdline")]


def _parent(pid: int) -> int:
    # The second field is the program's name, in parentheses, and may hold any character.
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
