"""TABLE task_inputs: all that came before a task's answer, whole.

It is not part of the request that every change of state reads, since it may be long.
"""

import orjson

from lmsp_site import rows
from tasks_app import items
from tasks_app.items import Item
from tasks_app.models import Response, Task, TaskInput


def store(task: Task, said: list[Item]) -> list[Item]:
    """Store the items of a new task and return them, each with its id; part of the transaction that accepts it."""
    named = items.named(said, task.id)
    rows.insert(TaskInput(task=task, items=orjson.dumps(named).decode()))
    return named


def of(task_id: str) -> list[Item]:
    """Return the items of a task, oldest first; none where they are not known."""
    return of_each([task_id])[task_id]


def of_each(task_ids: list[str]) -> dict[str, list[Item]]:
    """Do the same for many tasks in one go."""
    rows = TaskInput.objects.filter(pk__in=task_ids).values_list("pk", "items")
    found: dict[str, list[Item]] = {task_id: orjson.loads(text) for task_id, text in rows}
    for task_id in task_ids:
        if task_id not in found:
            found[task_id] = items.named(_before_there_was_the_table(task_id), task_id)
    return found


def _before_there_was_the_table(task_id: str) -> list[Item]:
    """Return the messages of a request that was stored with its texts in it."""
    request = Response.objects.filter(task=task_id).values_list("request", flat=True).first() or {}
    return [items.text_message(message["role"], message["content"]) for message in request.get("input", [])]
