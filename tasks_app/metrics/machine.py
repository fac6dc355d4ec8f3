"""What the file system, the processes and the engine host tell."""

import platform
import shutil
from pathlib import Path

from django.conf import settings

from lmsp_site import PROTOCOL_VERSION, __version__, health, open_streams, processes, stopping, wal
from models_app.engines.client import HostClient
from models_app.engines.memory import resident_bytes
from tasks_app import ownership
from tasks_app.metrics import gauges
from tasks_app.metrics.gauges import Samples

_LOCK_PATIENCE_SECONDS = 0.25
_HOST_PATIENCE_SECONDS = 0.25


def look(samples: Samples) -> None:
    """Add what needs neither the database nor an engine.

    Raises:
        OSError: the data directory cannot be read.
    """
    configuration = settings.LMSP
    samples[gauges.BUILD] = {(__version__, PROTOCOL_VERSION, platform.python_version()): 1}
    samples[gauges.WORKERS_CONFIGURED] = {(): configuration.max_running}
    samples[gauges.DISK_RESERVE] = {(): configuration.min_free_bytes}
    disk = shutil.disk_usage(configuration.data_dir)
    samples[gauges.DISK_FREE] = {(): disk.free}
    samples[gauges.DISK_SIZE] = {(): disk.total}
    samples[gauges.DATABASE_SIZE] = {(): _size(configuration.database)}
    samples[gauges.WAL_SIZE] = {(): wal.size(configuration.database)}
    samples[gauges.WORKERS] = {(): len(ownership.living())}
    streams = open_streams.totals(configuration.run_dir)
    samples[gauges.OPEN_STREAMS] = {(transport,): number for transport, number in streams.items()}
    if (started := _holder_started(configuration.run_dir / "serve.lock")) is not None:
        samples[gauges.START] = {(): started}
    faults = {"database": health.database_fault(_LOCK_PATIENCE_SECONDS), "disk": health.disk_fault()}
    samples[gauges.READY] = {(check,): fault is None for check, fault in faults.items()}


def ask_engines(samples: Samples, models: dict[str, str]) -> None:
    """Add what the engine host tells.

    Args:
        samples: to be added to.
        models: ids of the registered models, by the key of their engines; one that is not there shows by its digest.

    Raises:
        EngineUnavailable: the host does not answer; that alone is there then.
    """
    ready = samples.setdefault(gauges.READY, {})
    up = samples[gauges.ENGINE_UP] = {(model,): 0 for model in models.values()}
    samples[gauges.ENGINE_HOST_UP], ready["runner",] = {(): 0}, 0
    told = HostClient(settings.LMSP.run_dir).describe(_HOST_PATIENCE_SECONDS)
    samples[gauges.ENGINE_HOST_UP], ready["runner",] = {(): 1}, not stopping.is_announced(settings.LMSP.run_dir)
    if (started := processes.start_time(told["pid"])) is not None:
        samples[gauges.ENGINE_HOST_START] = {(): started}
    for metric, name in ((gauges.ENGINE_STARTS, "starts"), (gauges.ENGINE_DEATHS, "deaths")):
        samples[metric] = {(model,): 0 for model in models.values()}
        samples[metric] |= {(models.get(key, key),): number for key, number in told[name].items()}
    for engine in told["models"]:
        if engine["state"] == "ready":
            model = models.get(engine["key"], engine["key"])
            up[model,] = 1
            _look_at_engine(samples, model, engine["pid"])


def _look_at_engine(samples: Samples, model: str, pid: int) -> None:
    try:
        memory = resident_bytes(pid)
    except OSError:
        return  # It has ended since.
    samples.setdefault(gauges.ENGINE_MEMORY, {})[model,] = memory
    if (started := processes.start_time(pid)) is not None:
        samples.setdefault(gauges.ENGINE_START, {})[model,] = started


def _holder_started(lock: Path) -> float | None:
    """Return when the process was started that holds the service's lock."""
    try:
        return processes.start_time(int(lock.read_text()))
    except (OSError, ValueError):
        return None  # The workers and the web server were started without a supervisor.


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
