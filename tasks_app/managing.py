"""What people do to tasks and models, each deed written into the audit log in the transaction that does it."""

from django.db import transaction

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor
from lmsp_site.errors import Conflict
from models_app import removing
from models_app.models import LanguageModel
from tasks_app import deleting, lifecycle
from tasks_app.console import deeds
from tasks_app.models import Priority, Task
from tasks_app.states import FINISHED, Status


def cancel(task: Task, actor: Actor) -> Status:
    """Cancel a task and return its state afterwards.

    Raises:
        Conflict: it has finished, and stays as it is (R3).
    """
    with transaction.atomic():
        before = Task.objects.values_list("status", flat=True).get(pk=task.pk)
        if before in FINISHED:
            raise Conflict(f"{task.id} has finished: it is {before}, and stays so.", code="task_finished", retry=False)
        status = lifecycle.cancel(task.pk)
        audit_log.record(actor, Action.CANCELLED, task, was=before)
    return status


def rerun(task: Task, actor: Actor) -> Task:
    """Accept a new task like this one and return it.

    Raises:
        NothingToRun: its request is not known.
        ProtocolError: what a new request would be refused for, too.
    """
    # Not in a transaction of ours: whoever accepts a task may wait for others who accept, and would hold the lock.
    return deeds.rerun(task, lambda new: audit_log.record(actor, Action.RERUN, task, new_task=new.pk))


def amend(task: Task, actor: Actor, *, priority: int | None = None, on_restart: str | None = None) -> None:
    """Give a task that still waits another priority or restart policy.

    Raises:
        Conflict: it waits no more.
    """
    with transaction.atomic():
        before = Task.objects.get(pk=task.pk)
        if not lifecycle.amend(task.pk, priority=priority, on_restart=on_restart):
            raise Conflict(
                f"{task.id} waits no more: it is {before.status}. Another priority or policy is for queued tasks.",
                code="task_not_queued",
                retry=False,
            )
        changes = {}
        if priority is not None and priority != before.priority:
            changes["priority"] = {"from": _name(before.priority), "to": _name(priority)}
        if on_restart is not None and on_restart != before.on_restart:
            changes["on_restart"] = {"from": before.on_restart, "to": on_restart}
        if changes:
            audit_log.record(actor, Action.CHANGED, task, changes=changes)


def delete(task: Task, actor: Actor) -> None:
    """Delete a finished task with its log, response, input and snapshot.

    Raises:
        Conflict: it has not finished (R5).
    """
    if Task.objects.values_list("status", flat=True).get(pk=task.pk) not in FINISHED:
        raise Conflict(f"{task.id} has not finished: cancel it first.", code="task_not_finished", retry=False)
    with transaction.atomic():
        audit_log.record(actor, Action.DELETED, task, model=task.model, client=task.client_id)
    # In transactions of its own: one that removes a long log would keep all writers waiting.
    task.refresh_from_db()
    deleting.delete(task)


def remove_model(model: LanguageModel, actor: Actor) -> None:
    """Take a model out of the catalogue, with its files.

    Raises:
        Conflict: tasks that have not finished need it.
    """
    if count := Task.objects.unfinished().filter(model=model.pk).count():
        raise Conflict(
            f"{model.pk} is in use: {count} unfinished {'task needs' if count == 1 else 'tasks need'} it. Wait for "
            f"{'it' if count == 1 else 'them'}, or cancel first.",
            code="model_in_use",
            retry=False,
        )
    removing.remove(model, actor)


def _name(priority: int) -> str:
    return Priority(priority).name.lower()
