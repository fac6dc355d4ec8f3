"""Cancelling tasks for somebody who waits to hear what has become of them (R3)."""

import time
from collections.abc import Sequence

from tasks_app import lifecycle
from tasks_app.models import Task
from tasks_app.states import FINISHED

_PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.01


def cancel_and_wait(task_ids: Sequence[str]) -> dict[str, str]:
    """Cancel tasks, wait a moment for their workers to have stopped, and return the true states."""
    states: dict[str, str] = {task_id: lifecycle.cancel(task_id) for task_id in task_ids}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while set(states.values()) - FINISHED and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        states |= dict(Task.objects.filter(pk__in=task_ids).values_list("pk", "status"))
    return states
