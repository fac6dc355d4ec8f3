"""What a revoked client has left unfinished is cancelled: nobody may come for it any more.

One that has merely expired keeps its work: it may be given more time, and then finds it.
"""

import logging

from clients_app.models import Client
from tasks_app import lifecycle
from tasks_app.models import Task
from tasks_app.states import Status

logger = logging.getLogger(__name__)

# Each is a commit, and whoever sweeps has other duties.
_MOST = 200


def cancel_some() -> int:
    """Cancel unfinished tasks of revoked clients, some at a time; return how many there were."""
    clients = list(Client.objects.exclude(revoked_at=None).values_list("pk", flat=True))
    if not clients:
        return 0
    # Of those that are being cancelled already, a worker writes the end.
    left = Task.objects.unfinished().filter(client__in=clients).exclude(status=Status.CANCELLING)
    found = list(left.values_list("pk", flat=True)[:_MOST])
    for task_id in found:
        status = lifecycle.cancel(task_id)
        logger.info("cancelled: its client is revoked", extra={"task": task_id, "to": status})
    return len(found)


def cancel_all() -> int:
    """Do so until there is none; return how many there were."""
    total = 0
    while some := cancel_some():
        total += some
    return total
