"""Old finished tasks in a service's database, to be backed up and purged: made beside it, in a process of their own.

To be imported when Django is set up, with ``LMSP_DATA_DIR`` the service's.
"""

import json
from datetime import timedelta

from bench import left_over
from clients_app.models import Client
from lmsp_site.models import RestartPolicy, ServiceConfig
from tasks_app import lifecycle
from tasks_app.models import Task, TaskEvent
from tasks_app.output import Output

_DELTAS = 192
_TASKS_A_TRANSACTION = 100
# Young for the retention out of the box, so that the runner's own purge leaves them alone until `let_go`.
_AGE = timedelta(days=20)
_RETENTION_DAYS = 10


def fill(events: int) -> None:
    """Leave finished tasks with `events` events together, unless they are there; print as JSON how many there are.

    The first is made by the service's own verbs, the others are its copies, with everything that belongs to it.
    Nobody is kept waiting for long: one transaction takes few of them.
    """
    if TaskEvent.objects.count() <= events:
        original = _finished(Client.objects.get())
        each = TaskEvent.objects.filter(task=original).count()
        copies = -(-events // each)
        for first in range(0, copies, _TASKS_A_TRANSACTION):
            left_over.multiply([original], first, min(first + _TASKS_A_TRANSACTION, copies))
    print(json.dumps({"tasks": Task.objects.count(), "events": TaskEvent.objects.count()}))


def let_go() -> None:
    """Shorten the retention so that these are old from now on."""
    ServiceConfig.objects.update(retention_days=_RETENTION_DAYS)
    print(json.dumps({"retention_days": ServiceConfig.current().retention_days}))


def _finished(client: Client) -> str:
    """Make a task with the events and the journal of a long answer, and let it have finished a while ago."""
    run = left_over.begin(client, RestartPolicy.RESUME)
    output = Output(run.task_id)
    for position in range(_DELTAS):
        lifecycle.append(run, position, [position], [1], output.write(" word"))
    lifecycle.complete(run, _DELTAS, [], [], output.close("completed"), output, None)
    Task.objects.filter(pk=run.task_id).update(finished_at=lifecycle.now() - _AGE)
    return run.task_id
