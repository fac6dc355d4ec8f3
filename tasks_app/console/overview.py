"""The state of the whole service at one moment."""

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Count

from lmsp_site import PROTOCOL_VERSION, __version__, file_lock, health, wal
from lmsp_site.models import ServiceConfig
from lmsp_site.processes import age
from models_app.engines.base import EngineAddress
from models_app.engines.client import EngineUnavailable, HostClient, engine_info
from models_app.models import FileState, LanguageModel
from tasks_app import ownership
from tasks_app.console import figures, listing, processes
from tasks_app.models import Priority, Task
from tasks_app.states import Status

_LOOK_BACK = timedelta(hours=1)
_FRONT = 1000


def overview() -> dict[str, Any]:
    """Return everything; sizes in bytes, times in seconds, moments in Unix seconds."""
    return {**standing(), **present(), "processes": _processes(), "tasks": _by_status(), "last_hour": _last_hour()}


def present() -> dict[str, Any]:
    """Return what changes by the second: what waits and what runs. Finished tasks are not looked at."""
    return {"queue": _queue(), "running": list(_running())}


def standing() -> dict[str, Any]:
    """Return how the service is, found out without a look at its tasks."""
    config = ServiceConfig.current()
    return {
        "service": {
            "id": str(config.service_id),
            "name": config.name,
            "version": __version__,
            "protocol_version": PROTOCOL_VERSION,
            "data_dir": str(settings.LMSP.data_dir),
        },
        "served_by": _served_by(settings.LMSP.run_dir / "serve.lock"),
        "workers": len(ownership.living()),
        "ready": health.checks(),
        "remarks": health.remarks(),
        "models": list(_models()),
        "storage": _storage(),
        "retention": {"days": config.retention_days, "idempotency_hours": config.idempotency_hours},
    }


def _served_by(lock: Path) -> dict[str, Any] | None:
    """Return which process holds the lock of a service; ``None`` where none does."""
    try:
        pid = int(lock.read_text())
    except (OSError, ValueError):
        return None
    # Asked for only where the process lives: a `serve` that starts at this very moment must find the lock free.
    seconds = age(pid)
    return {"pid": pid, "seconds": round(seconds)} if seconds is not None and file_lock.is_held(lock) else None


def _processes() -> dict[str, Any]:
    found = processes.seen(settings.LMSP.data_dir)
    return {
        role: {
            "pids": sorted(process.pid for process in found if process.role == role),
            "memory_bytes": sum(process.memory_bytes for process in found if process.role == role),
        }
        for role in processes.ROLES
    }


def _by_status() -> dict[str, int]:
    counted = dict(Task.objects.order_by().values_list("status").annotate(Count("pk")))
    return {str(status): counted.get(status, 0) for status in Status}


def _last_hour() -> dict[str, int]:
    # Counted here: asked to group them, the database goes through the states of all tasks and not through the hour.
    ended = Task.objects.filter(finished_at__gte=datetime.now(UTC) - _LOOK_BACK).order_by()
    counted = Counter(ended.values_list("status", flat=True).iterator())
    return {str(status): counted[status] for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)}


def _queue() -> dict[str, Any]:
    now = datetime.now(UTC)
    counted: dict[str, Any] = {}
    for priority in Priority:
        queued = Task.objects.filter(status=Status.QUEUED, finished_at=None, priority=priority)
        # Ids sort by age: the first of the index is the oldest.
        oldest = queued.order_by("id").values_list("created_at", flat=True).first()
        counted[priority.name.lower()] = {
            "tasks": queued.count(),
            "oldest_seconds": _rounded(figures.since(oldest, now)),
        }
    # What is tried again is old, and stands at the front.
    first = Task.objects.filter(status=Status.QUEUED, finished_at=None).order_by("priority", "id")[:_FRONT]
    interrupted = Task.objects.filter(status=Status.RUNNING, finished_at=None, owner=None)[:_FRONT]
    moments = [*first.values_list("claimable_at", flat=True), *interrupted.values_list("claimable_at", flat=True)]
    due = [moment for moment in moments if moment and moment > now]
    return counted | {"due_later": len(due), "due_in_seconds": _rounded(figures.since(now, min(due))) if due else None}


def _running() -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)
    for task in Task.objects.claimed().select_related("client").order_by("id")[: settings.LMSP.max_running * 4]:
        seconds = figures.since(task.started_at, now)
        yield {
            "id": task.id,
            "status": task.status,
            "client": task.client.name,
            "model": task.model,
            "attempt": task.attempt,
            "input_tokens": task.input_tokens,
            "output_tokens": task.output_tokens,
            "tokens_per_second": round(task.output_tokens / seconds, 1) if seconds else 0.0,
            "seconds": _rounded(seconds),
            "note": listing.note(task, None),
        }


def _models() -> Iterator[dict[str, Any]]:
    """Yield every registered model, and what the engine of one in memory says about itself."""
    try:
        loaded = {model["key"]: model for model in HostClient(settings.LMSP.run_dir).list()}
    except EngineUnavailable:
        loaded = {}
    for model in LanguageModel.objects.all():
        engine = loaded.get(model.engine_key)
        shown = {"id": model.id, "size_bytes": model.size_bytes, "state": "not loaded"}
        if model.stamps_now() is None:
            shown["state"] = "file missing"
        elif model.file_state == FileState.CORRUPT:
            shown["state"] = "corrupt"
        elif engine:
            shown |= {"state": engine["state"], **_engine(engine)}
        yield shown


def _engine(engine: dict[str, Any]) -> dict[str, Any]:
    if engine["state"] != "ready":
        return {"progress": engine["progress"]}
    address = EngineAddress(**{name: engine[name] for name in EngineAddress.__dataclass_fields__})
    try:
        info = engine_info(address)
    except EngineUnavailable:
        return {"state": "ending"}
    return {
        "pid": address.pid,
        "memory_bytes": info["rss"],
        "slots": address.slots,
        "busy_slots": info.get("busy_slots"),
        "context_length": address.context_length,
        "tokens_generated": info.get("tokens_generated"),
    }


def _storage() -> dict[str, int]:
    configuration = settings.LMSP
    return {
        "database_bytes": _size(configuration.database),
        "wal_bytes": wal.size(configuration.database),
        "models_bytes": sum(map(_size, configuration.models_dir.iterdir())),
        "checkpoints_bytes": sum(map(_size, configuration.checkpoints_dir.iterdir())),
        "free_bytes": shutil.disk_usage(configuration.data_dir).free,
        "reserve_bytes": configuration.min_free_bytes,
    }


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    return sum(map(_size, path.iterdir())) if path.is_dir() else found.st_size


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
