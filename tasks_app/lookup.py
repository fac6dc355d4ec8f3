"""Finding a client's own tasks and responses: a foreign id and an unknown one are the same."""

from collections.abc import Collection

from clients_app.models import Client
from lmsp_site.errors import NotFound
from tasks_app import claim_order
from tasks_app.models import Task
from tasks_app.states import Status


def task(client: Client, task_id: str) -> Task:
    """Return the task of `client` with its response.

    Raises:
        NotFound: ``task_not_found``, the same for a task of somebody else and for none at all.
    """
    found = Task.objects.of(client).select_related("response").filter(pk=task_id).first()
    if found is None:
        raise NotFound(f"There is no task {task_id!r}.", code="task_not_found")
    return found


def known_ids(client: Client, task_ids: Collection[str]) -> set[str]:
    """Return those of `task_ids` that are tasks of `client`."""
    return set(Task.objects.of(client).filter(pk__in=task_ids).values_list("pk", flat=True))


def task_of_response(client: Client, response_id: str) -> Task:
    """Return the task of `client` whose response has this id.

    Raises:
        NotFound: ``response_not_found``.
    """
    found = Task.objects.of(client).select_related("response").filter(response=response_id).first()
    if found is None:
        raise NotFound(f"There is no response {response_id!r}.", code="response_not_found")
    return found


def position(waiting: Task, most: int | None = None) -> int | None:
    """Return the place of `waiting` in the queue, from 1; ``None`` when it does not wait, or is behind `most` others.

    See ``claim_order.position``.
    """
    return claim_order.position(waiting, most) if waiting.status == Status.QUEUED else None
