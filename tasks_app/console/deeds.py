"""What a person does to tasks: cancel them, run them again."""

import time
from collections.abc import Sequence

from tasks_app import lifecycle, responses, submission
from tasks_app.models import Task
from tasks_app.states import FINISHED

# As long as the API waits for a worker to have stopped.
_CANCEL_PATIENCE_SECONDS = 2.0
_CANCEL_LOOK_SECONDS = 0.02


class NothingToRun(Exception):
    """The task has no request."""


def cancel(task_ids: Sequence[str]) -> dict[str, str]:
    """Cancel tasks, wait a moment for their workers to have stopped, and return the true states (R3)."""
    states: dict[str, str] = {task_id: lifecycle.cancel(task_id) for task_id in task_ids}
    deadline = time.monotonic() + _CANCEL_PATIENCE_SECONDS
    while set(states.values()) - FINISHED and time.monotonic() < deadline:
        time.sleep(_CANCEL_LOOK_SECONDS)
        states |= dict(Task.objects.filter(pk__in=task_ids).values_list("pk", "status"))
    return states


def rerun(task: Task) -> Task:
    """Accept a new task with the request, policy, priority, metadata and client of `task`.

    The seed is part of the request: where the engine is the same and decodes nothing else, so is the text.

    Raises:
        NothingToRun: its request is not known.
        ProtocolError: what a new request would be refused for, too.
    """
    request = responses.of(task).request
    if not request.get("input"):
        raise NothingToRun(f"{task.id} has no request that could be run again.")
    fields = {
        **request,
        "model": task.model,
        "on_restart": task.on_restart,
        "priority": task.priority,
        "metadata": task.metadata,
        # Nobody waits for the answer: unless it is stored, nobody can have it.
        "store": True,
    }
    accepted = submission.submit(task.client, fields, foreground=False, key=None, answer=lambda _: {})
    assert accepted.task is not None
    return accepted.task
