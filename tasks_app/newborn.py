"""Finding all tasks of a client, each once: those that are unfinished, and those that come."""

import time

from django.db.models import Q

from clients_app.models import Client
from lmsp_site import ids
from lmsp_site.errors import InvalidRequest
from tasks_app.models import Task
from tasks_app.states import UNFINISHED

# From the moment in which a task gets its id, until it can be seen: as long as a submission may wait for the database.
_MARGIN_SECONDS = 30.0


class Newborn:
    """What one reader has not been told of yet.

    Args:
        client: whose tasks.
        since: the newest task that the reader knows; of what is older, only what is unfinished counts.
        told: tasks that it has been told of already.
    """

    def __init__(self, client: Client, since: str | None, told: set[str]) -> None:
        self._client = client
        self._since = ids.first_id_at("task", time.time()) if since is None else _before(since)
        self._told = told
        self._floor = ""

    def tell(self, task_ids: set[str]) -> None:
        """Pass over these tasks: the reader knows them."""
        self._told |= task_ids

    def look(self, most: int) -> list[str]:
        """Return up to `most` tasks that were not told of before, the oldest first."""
        # A task may come later than one with a greater id.
        settled = ids.first_id_at("task", time.time() - _MARGIN_SECONDS)
        tasks = Task.objects.of(self._client).filter(pk__gt=self._floor)
        wanted = tasks.filter(Q(status__in=UNFINISHED, finished_at=None) | Q(pk__gt=self._since)).order_by("pk")
        found: list[str] = []
        for task_id in wanted.values_list("pk", flat=True).iterator():
            if task_id in self._told:
                continue
            if len(found) == most:
                settled = min(settled, found[-1])
                break
            found.append(task_id)
        self._floor = max(self._floor, settled)
        self._told = {task_id for task_id in self._told.union(found) if task_id > self._floor}
        return found


def _before(since: str) -> str:
    try:
        return ids.first_id_at("task", ids.made_at(since) - _MARGIN_SECONDS)
    except ValueError:
        raise InvalidRequest("since must be the id of a task.", param="since") from None
