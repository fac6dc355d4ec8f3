"""Deleting a task with its response, as its client asks for it."""

from lmsp_site.errors import Conflict
from tasks_app import retention
from tasks_app.models import Task


def delete(task: Task) -> None:
    """Delete a finished task: its log, response, input and snapshot go with it. Turns that follow it keep what it said.

    Raises:
        Conflict: it has not finished (``task_not_finished``), and must not be lost (R5).
    """
    if not task.finished:
        raise Conflict(
            "The task has not finished; cancel it first.",
            code="task_not_finished",
            retry=False,
        )
    retention.forget(task.id)
