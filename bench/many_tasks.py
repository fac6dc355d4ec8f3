"""A million finished tasks in a service's database, and somebody signed in who looks at them.

To be imported when Django is set up, with ``LMSP_DATA_DIR`` the service's.
"""

import json

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore

from bench import left_over
from clients_app.models import Client
from lmsp_site.models import RestartPolicy
from tasks_app import lifecycle
from tasks_app.models import JournalEntry, Task, TaskEvent
from tasks_app.output import Output
from tasks_app.states import FINISHED, Status

_TASKS_A_TRANSACTION = 20_000
_RARE = 100


def fill(tasks: int) -> None:
    """Leave so many finished tasks of two clients in every state; print as JSON how many there are.

    The originals are made by the service's own verbs; of their logs the last event alone is kept, and copied.
    """
    clients = [Client.objects.get(name="bench"), Client.pair("second", [])[0]]
    common = [_finished(client, status) for client in clients for status in (Status.COMPLETED, Status.CANCELLED)]
    rare = _finished(clients[0], Status.FAILED)
    for task_id in (*common, rare):
        last = Task.objects.values_list("last_sequence_number", flat=True).get(pk=task_id)
        TaskEvent.objects.filter(task=task_id, sequence_number__lt=last).delete()
        JournalEntry.objects.filter(snapshot=task_id).delete()
    for first in range(0, tasks, _TASKS_A_TRANSACTION):
        end = min(first + _TASKS_A_TRANSACTION, tasks)
        left_over.multiply(common, first, end)
    # A state that hardly any task is in is the hardest to find a page of.
    left_over.multiply([rare], tasks, tasks + _RARE)
    print(json.dumps({"tasks": Task.objects.count()}))


def sign_in(name: str) -> None:
    """Sign a new superuser in; print as JSON the key of the session."""
    user = User.objects.create_superuser(name, password=None)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    print(json.dumps({"session": session.session_key}))


def _finished(client: Client, status: Status) -> str:
    assert status in FINISHED
    task = left_over.accept(client, RestartPolicy.RESUME)
    run = lifecycle.claim(task, "worker-bench", "job", loaded=True)
    assert run is not None
    match status:
        case Status.CANCELLED:
            lifecycle.cancel(task.id)
            lifecycle.finish_cancel(task.id)
        case Status.FAILED:
            lifecycle.fail(task.id, "engine_died", "The engine's process has ended.")
        case _:
            output = Output(task.id)
            lifecycle.append(run, 0, [1], [1], output.write("Done."))
            lifecycle.complete(run, 1, [], [], output.close("completed"), output, None)
    return task.id
