"""A million finished tasks in a service's database, and somebody signed in who looks at them.

To be imported when Django is set up, with ``LMSP_DATA_DIR`` the service's.
"""

import json
import time

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
_KINDS = 4


def fill(tasks: int) -> None:
    """Leave so many finished tasks of two clients in every state; print as JSON how many there are."""
    _add(0, tasks)
    rare = _without_log(_finished(_clients()[0], Status.FAILED))
    # A state that hardly any task is in is the hardest to find a page of.
    left_over.multiply([rare], tasks, tasks + _RARE)
    print(json.dumps({"tasks": Task.objects.count()}))


def add(first: int, end: int) -> None:
    """Leave finished tasks numbered from `first` to `end`; print as JSON one in the middle of all, and its response.

    Both are those of the client *bench*, and completed.
    """
    _add(first, end)
    middle = end // 2 // _KINDS * _KINDS
    print(json.dumps({"task": f"task_{middle:026d}", "response": f"resp_{middle:026d}"}))


def claim(tasks: int) -> None:
    """Accept so many tasks and claim one after the other; print as JSON how many milliseconds each claim took.

    The workers of the service must stand still. Nothing of it is left running.
    """
    client = Client.objects.get(name="bench")
    for _ in range(tasks):
        left_over.accept(client, RestartPolicy.FAIL)
    took, claimed = [], []
    for _ in range(tasks):
        began = time.perf_counter()
        candidate = Task.objects.next_claimable()
        assert candidate is not None
        run = lifecycle.claim(candidate, "worker-bench", "job", loaded=True)
        took.append(1000 * (time.perf_counter() - began))
        assert run is not None
        claimed.append(run.task_id)
    for task_id in claimed:
        lifecycle.cancel(task_id)
        lifecycle.finish_cancel(task_id)
    print(json.dumps({"milliseconds": took}))


def sign_in(name: str) -> None:
    """Sign a new superuser in; print as JSON the key of the session."""
    user = User.objects.create_superuser(name, password=None)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    print(json.dumps({"session": session.session_key}))


def _add(first: int, end: int) -> None:
    """Copy originals that the service's own verbs have made; of their logs the last event alone is kept."""
    originals = [
        _without_log(_finished(client, status))
        for client in _clients()
        for status in (Status.COMPLETED, Status.CANCELLED)
    ]
    assert len(originals) == _KINDS
    for start in range(first, end, _TASKS_A_TRANSACTION):
        left_over.multiply(originals, start, min(start + _TASKS_A_TRANSACTION, end))


def _clients() -> list[Client]:
    second = Client.objects.filter(name="second").first() or Client.pair("second", [])[0]
    return [Client.objects.get(name="bench"), second]


def _without_log(task_id: str) -> str:
    last = Task.objects.values_list("last_sequence_number", flat=True).get(pk=task_id)
    TaskEvent.objects.filter(task=task_id, sequence_number__lt=last).delete()
    JournalEntry.objects.filter(snapshot=task_id).delete()
    return task_id


def _finished(client: Client, status: Status) -> str:
    assert status in FINISHED
    run = left_over.begin(client, RestartPolicy.RESUME)
    task_id = run.task_id
    match status:
        case Status.CANCELLED:
            lifecycle.cancel(task_id)
            lifecycle.finish_cancel(task_id)
        case Status.FAILED:
            lifecycle.fail(task_id, "engine_died", "The engine's process has ended.")
        case _:
            output = Output(task_id)
            lifecycle.append(run, 0, [1], [1], output.write("Done."))
            lifecycle.complete(run, 1, [], [], output.close("completed"), output, None)
    return task_id
