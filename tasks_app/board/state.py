"""What the dashboard shows: the state of the service at one moment."""

import json
import time
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import connection

from lmsp_site.processes import start_time
from tasks_app.console import explanations, overview
from tasks_app.models import Task
from tasks_app.states import EventType

_TAIL_EVENTS = 60
_TAIL_CHARACTERS = 400
_TEXT = (
    "SELECT data FROM task_events WHERE task_id = %s AND type = %s AND sequence_number > %s"
    " ORDER BY sequence_number DESC LIMIT %s"
)
_DAY = 86400.0


def present() -> dict[str, Any]:
    """Return what waits and what runs, each with the end of its text so far."""
    now = overview.present()
    for task in now["running"]:
        task["text"] = text_tail(task["id"])
    return now


def text_tail(task_id: str) -> str:
    """Return the last few words that a task has said."""
    last = Task.objects.values_list("last_sequence_number", flat=True).filter(pk=task_id).first()
    if last is None:
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_TEXT, (task_id, EventType.OUTPUT_TEXT_DELTA, last - _TAIL_EVENTS, _TAIL_EVENTS))
        pieces = [json.loads(data)["delta"] for (data,) in cursor.fetchall()]
    return "".join(reversed(pieces))[-_TAIL_CHARACTERS:]


def standing() -> dict[str, Any]:
    """Return how the service is, what is loaded and what is stored, and how much that will be."""
    state = overview.standing()
    served = state["served_by"]
    began = start_time(served["pid"]) if served else None
    return {
        **state,
        "started_at": began,
        "workers_configured": settings.LMSP.max_running,
        "forecast": _forecast(state["storage"]["database_bytes"], state["retention"]["days"]),
        "at": time.time(),
    }


def failures(counted: dict[str, int]) -> list[dict[str, Any]]:
    """Return each error code with how often it came and what it means."""
    return [{"code": code, "count": count, "meaning": explanations.of(code)} for code, count in counted.items()]


def _forecast(size: int, days: int) -> dict[str, Any]:
    """Return how large the database becomes if work goes on as it has since the oldest task that is kept.

    ``bytes`` is ``None`` while there is too little to tell by.
    """
    finished = Task.objects.filter(finished_at__isnull=False).order_by("finished_at")
    first = finished.values_list("finished_at", flat=True).first()
    kept = (datetime.now(UTC) - first).total_seconds() / _DAY if first else 0.0
    if kept < 1 / 24:
        return {"days_kept": round(kept, 2), "bytes": None}
    # Once the oldest have the age at which they go, as much comes as goes.
    return {"days_kept": round(kept, 1), "bytes": round(size * max(1.0, days / kept))}
