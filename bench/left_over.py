"""Tasks that the last service left over: made, recovered and timed, in a process and a database of their own.

To be imported when Django is set up, with ``LMSP_DATA_DIR`` an empty directory.
"""

import json
import os
import time
from collections.abc import Iterable, Sequence
from itertools import product

from django.core.management import call_command
from django.db import connection, transaction

from bench import processes
from clients_app.models import Client
from lmsp_site.ids import new_suffix
from lmsp_site.models import RestartPolicy
from tasks_app import idempotency, inputs, items, lifecycle, recovery, responses, snapshot
from tasks_app.idempotency import Claim
from tasks_app.models import Response, Task
from tasks_app.output import Output
from tasks_app.states import CLAIMED, Status

_PROMPT = list(range(40))
_WORDS = ["Once upon", " a", " time"]
_REQUEST = {
    **responses.DEFAULTS,
    "max_output_tokens": 192,
    "temperature": 0.7,
    "seed": 1,
}
# The originals take turns. The id tells the copies apart, and sorts them by age.
_COPY = """
    WITH RECURSIVE
        numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {end}),
        originals(original, place) AS (
            SELECT id, row_number() OVER (ORDER BY id) - 1 FROM tasks WHERE id IN ({ids})
        )
    INSERT INTO {table} ({columns})
    SELECT {values}
    FROM numbers JOIN originals ON place = n % {originals} JOIN {table} ON {table}.{key} = original
    ORDER BY n, {table}.rowid
"""
_KEYS = {
    "responses": ("task_id", {"id": "resp"}),
    "task_events": ("task_id", {}),
    "task_inputs": ("task_id", {}),
    "task_snapshots": ("task_id", {}),
    "task_journal": ("snapshot_id", {}),
    "idempotency_keys": ("task_id", {"key": "key"}),
    # Last: until then the originals alone are there.
    "tasks": ("id", {}),
}
"""Each table that knows tasks: its column with the task's id, and what else must differ from copy to copy."""


def main(count: int, states: Iterable[str]) -> None:
    """Leave `count` tasks, recover them, and print as JSON what that took, and how many cores others used meanwhile.

    Args:
        count: of tasks.
        states: what they are at, each under every restart policy, in equal parts.
    """
    call_command("migrate", verbosity=0)
    client, _ = Client.pair("bench", ["tasks:read", "tasks:write"])
    cells = list(product(map(Status, states), RestartPolicy))
    originals = [_leave(client, status, policy) for status, policy in cells]
    multiply(originals, 0, count - len(cells))
    machine, cpu, began = processes.machine_cpu(), _cpu(), time.perf_counter()
    went = recovery.recover_all()
    seconds, cpu = time.perf_counter() - began, _cpu() - cpu
    foreign = max(processes.machine_cpu() - machine - cpu, 0.0) / seconds
    assert went.total() == count, went
    print(json.dumps({"tasks": count, "seconds": seconds, "cpu_seconds": cpu, "foreign_cores": foreign, "went": went}))


def cancel_queued() -> None:
    """Cancel all tasks that wait; print as JSON how many there were."""
    waiting = list(Task.objects.filter(status=Status.QUEUED).values_list("pk", flat=True))
    for task_id in waiting:
        lifecycle.cancel(task_id)
    print(json.dumps({"cancelled": len(waiting)}))


def _cpu() -> float:
    """Return the processor time of this process and of those that it has waited for, in seconds."""
    return sum(os.times()[:4])


def accept(client: Client, policy: RestartPolicy) -> Task:
    """Accept a task, as a submission does."""
    suffix = new_suffix()
    task = Task(
        id=f"task_{suffix}",
        client=client,
        model="bench",
        on_restart=policy,
        metadata={"purpose": "bench"},
        input_tokens=len(_PROMPT),
        created_at=lifecycle.now(),
    )
    response = Response(id=f"resp_{suffix}", task=task, request=_REQUEST, created_at=task.created_at)
    with transaction.atomic():
        lifecycle.birth(task, response)
        inputs.store(task, [items.text_message("user", "Tell me a story of a lighthouse.")])
        snapshot.create(task, _PROMPT, seed=1)
    return task


def begin(client: Client, policy: RestartPolicy) -> lifecycle.Run:
    """Accept a task and claim it in one transaction, so that no worker of a running service can be faster."""
    with transaction.atomic():
        run = lifecycle.claim(accept(client, policy), "worker-bench", "job", loaded=True)
    assert run is not None
    return run


def _leave(client: Client, status: Status, policy: RestartPolicy) -> str:
    """Leave a task as the end of its worker does; some have a caller that would ask again by its key."""
    task = accept(client, policy)
    if status in (Status.QUEUED, Status.RUNNING) and policy is RestartPolicy.FAIL:
        claim = Claim.of(client, "/v1/responses", task.id, _REQUEST)
        assert claim is not None
        idempotency.store(claim, task, status=None, body=None)
    if status not in CLAIMED:
        return task.id
    run = lifecycle.claim(task, "worker-dead", "job", loaded=status is not Status.LOADING)
    assert run is not None
    if status is not Status.LOADING:
        output = Output(task.id)
        for position, word in enumerate(_WORDS):
            lifecycle.append(run, position, [position], [1], output.write(word))
    if status is Status.CANCELLING:
        lifecycle.cancel(task.id)
    return task.id


def multiply(originals: Sequence[str], first: int, end: int) -> None:
    """Copy the tasks in turns, with everything that belongs to them; the copies are numbered from `first` to `end`."""
    # The rows of the copies come before the copies.
    with transaction.atomic(), connection.cursor() as cursor:
        for table, (key, own) in _KEYS.items():
            columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
            values = {name: f"{table}.{name}" for name in columns}
            values |= {name: f"printf('{prefix}_%026d', n)" for name, prefix in {**own, key: "task"}.items()}
            if table in ("task_events", "task_journal", "idempotency_keys"):
                del values["id"]
            if table == "task_events":
                # The ids that an event tells end as its task's does.
                values["data"] = "replace(task_events.data, substr(task_events.task_id, 6), printf('%026d', n))"
            cursor.execute(
                _COPY.format(
                    table=table,
                    key=key,
                    columns=", ".join(values),
                    values=", ".join(values.values()),
                    first=first,
                    end=end,
                    originals=len(originals),
                    ids=", ".join(f"'{task_id}'" for task_id in originals),
                )
            )
