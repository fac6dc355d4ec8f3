"""How long a model takes until it can generate: its file read from the disk, and its file in memory."""

import os

from bench.findings import Finding, spread
from bench.service import MODEL, Service
from bench.subjects import Subjects

_LEAST_ROUNDS = 3


def measure(subjects: Subjects) -> list[Finding]:
    """Seconds from the question for the model to the answer that it is ready, the process's start included."""
    subjects.stop_raw_loops()
    service = subjects.service
    rounds = max(_LEAST_ROUNDS, subjects.options.rounds)
    cold = [_load(service, from_disk=True) for _ in range(rounds)]
    warm = [_load(service, from_disk=False) for _ in range(rounds)]
    return [_finding("load_cold", "load, from the disk", cold), _finding("load_warm", "load, from memory", warm)]


def _load(service: Service, *, from_disk: bool) -> float:
    service.manage("unload_model", MODEL)
    if from_disk:
        _forget(service)
    return float(service.manage("load_model", MODEL)["seconds"])


def _forget(service: Service) -> None:
    """Have the kernel forget what it has of the file; nobody maps it any more."""
    with service.model_file.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _finding(name: str, title: str, seconds: list[float]) -> Finding:
    found = spread(seconds, 3)
    return Finding(
        name,
        title,
        found["median"],
        "s",
        None,
        is_ceiling=True,
        columns=(f"{found['least']:.2f} to {found['most']:.2f} s", "", f"{len(seconds)} times"),
        detail={"seconds": found},
    )
