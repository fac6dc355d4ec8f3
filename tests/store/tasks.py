"""Tasks as the store tests make them: by the service's own functions, without an engine."""

from typing import Any

from django.db import transaction

from clients_app.models import Client
from lmsp_site.ids import new_suffix
from tasks_app import event_log, lifecycle, responses, snapshot
from tasks_app.event_log import Entry
from tasks_app.lifecycle import Orphan, Run
from tasks_app.models import Response, Task
from tasks_app.output import Output
from tasks_app.states import Status


def new_task(client: Client, **fields: Any) -> Task:
    """Accept a task, as a submission does."""
    suffix = new_suffix()
    task = Task(id=f"task_{suffix}", client=client, model="m", created_at=lifecycle.now(), input_tokens=3, **fields)
    response = Response(id=f"resp_{suffix}", task=task, request={"seed": 1}, created_at=task.created_at)
    with transaction.atomic():
        lifecycle.birth(task, response)
        snapshot.create(task, [1, 2, 3], 1)
    return task


def running(client: Client, **fields: Any) -> tuple[Task, Run]:
    """Accept a task and claim it, the model being loaded."""
    task = new_task(client, **fields)
    run = lifecycle.claim(task, "somebody", "job", loaded=True)
    assert run is not None
    return Task.objects.get(pk=task.pk), run


def put(task: Task, status: Status) -> Task:
    """Bring a new task into `status` by the ways there are."""
    if status is Status.QUEUED:
        return task
    run = lifecycle.claim(task, "somebody", "job", loaded=status is not Status.LOADING)
    assert run is not None
    match status:
        case Status.CANCELLING:
            lifecycle.cancel(task.id)
        case Status.CANCELLED:
            lifecycle.cancel(task.id)
            lifecycle.finish_cancel(task.id)
        case Status.FAILED:
            lifecycle.fail(task.id, "engine_died", "gone")
        case Status.COMPLETED:
            finish(run, "Done.")
    return Task.objects.get(pk=task.pk)


def finish(run: Run, text: str, incomplete_reason: str | None = None) -> None:
    """Let `run` say `text` and complete."""
    output = Output.of(run.task_id)
    closing = [*output.write(text), *output.close("incomplete" if incomplete_reason else "completed")]
    position = Task.objects.get(pk=run.task_id).output_tokens
    lifecycle.complete(run, position, [7], [1], closing, output, incomplete_reason)


def say(run: Run, *texts: str) -> None:
    """Let `run` commit each text as one token."""
    output = Output.of(run.task_id)
    for text in texts:
        position = Task.objects.get(pk=run.task_id).output_tokens
        lifecycle.append(run, position, [100 + position], [1], output.write(text))


def log(task: Task) -> list[Entry]:
    return event_log.read(task.id)


def recover(task: Task, code: str) -> Status:
    """Apply the task's restart policy as it stands, and return where it went."""
    orphan = Orphan(*Task.objects.values_list(*Orphan._fields).get(pk=task.pk))
    return lifecycle.apply_restart_policy([orphan], code, "gone")[task.id]


def stored_text(task: Task) -> str:
    last = log(task)[-1]
    assert last.is_terminal
    return responses.output_text(last.fields()["response"])


def types(task: Task) -> list[str]:
    return [entry.type for entry in log(task)]
