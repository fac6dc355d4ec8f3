"""What a person does to a task: run it again."""

from collections.abc import Callable

from tasks_app import inputs, responses, submission
from tasks_app.models import Task


class NothingToRun(Exception):
    """The task has no request."""


def rerun(task: Task, beside: Callable[[Task], None] | None = None) -> Task:
    """Accept a new task with the request, policy, priority, metadata and client of `task`.

    What `beside` writes is stored with it. The seed is part of the request: where the engine is the same and decodes
    nothing else, so is the text.

    Raises:
        NothingToRun: its request is not known.
        ProtocolError: what a new request would be refused for, too.
    """
    request = responses.of(task).request
    said = inputs.of(task.id)
    if not said:
        raise NothingToRun(f"{task.id} has no request that could be run again.")
    fields = {
        **request,
        # Its input is whole: the turns before it are in there.
        "input": said,
        "previous_response_id": None,
        "model": task.model,
        "on_restart": task.on_restart,
        "priority": task.priority,
        "metadata": task.metadata,
        # Nobody waits for the answer: unless it is stored, nobody can have it.
        "store": True,
    }
    accepted = submission.submit(task.client, fields, foreground=False, key=None, answer=lambda _: {}, beside=beside)
    assert accepted.task is not None
    return accepted.task
