"""A task whose events are written at a steady pace, by the product's own functions, in a process of their own.

To be imported when Django is set up, with ``LMSP_DATA_DIR`` that of a running service. It talks in lines: the ids
of the task and its response; then, for each line it is told, the moments of the commits and how long the
transactions took.
"""

import json
import os
import sys
import time

from django.db import transaction

from clients_app.models import Client
from lmsp_site.ids import new_suffix
from tasks_app import event_log, lifecycle, ownership, responses, snapshot
from tasks_app.event_log import Event
from tasks_app.lifecycle import Run
from tasks_app.models import Response, Task
from tasks_app.states import EventType

_DELTA = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": " word"}
_BATCH = 5_000


def main() -> None:
    """Make a task that runs, and do as told: ``EVENTS RATE`` writes so many events, so many a second; 0 at once."""
    run = _run_a_task()
    print(json.dumps({"task_id": run.task_id, "response_id": responses.id_for(run.task_id)}), flush=True)
    written = 0
    for line in sys.stdin:
        events, rate = map(int, line.split())
        commits, took = _write(run, written, events, rate) if rate else _write_at_once(run, events)
        written += events if rate else 0
        print(json.dumps({"commits": commits, "took_ms": took, "cpu_seconds": sum(os.times()[:2])}), flush=True)
    lifecycle.fail(run.task_id, "bench", "It is over.")


def _run_a_task() -> Run:
    suffix = new_suffix()
    task = Task(
        id=f"task_{suffix}",
        client=Client.objects.get(),
        model="bench",
        created_at=lifecycle.now(),
        on_restart="fail",
    )
    response = Response(id=f"resp_{suffix}", task=task, request=responses.DEFAULTS, created_at=task.created_at)
    with transaction.atomic():
        lifecycle.birth(task, response)
        snapshot.create(task, [1], seed=1)
        run = lifecycle.claim(task, ownership.own_name(), "bench", loaded=True)
    assert run is not None
    return run


def _write(run: Run, position: int, events: int, rate: int) -> tuple[dict[int, int], list[float]]:
    """Commit one event after the other.

    Returns:
        When each was committed, in nanoseconds, by its number; and how many milliseconds each transaction took.
    """
    commits: dict[int, int] = {}
    took: list[float] = []
    number = Task.objects.values_list("last_sequence_number", flat=True).get(pk=run.task_id)
    due = time.monotonic()
    for index in range(events):
        number += 1
        began = time.perf_counter()
        with transaction.atomic():
            # Before those who wait are told.
            transaction.on_commit(lambda number=number: commits.setdefault(number, time.monotonic_ns()))  # type: ignore[misc]
            lifecycle.append(run, position + index, [7], [1], [Event(EventType.OUTPUT_TEXT_DELTA, _DELTA)])
        took.append(1000 * (time.perf_counter() - began))
        ownership.beat()
        due += 1 / rate
        time.sleep(max(due - time.monotonic(), 0))
    return commits, took


def _write_at_once(run: Run, events: int) -> tuple[dict[int, int], list[float]]:
    """Make the log longer, as fast as it goes."""
    data = event_log.encode(_DELTA)
    left = events
    while left:
        rows = min(left, _BATCH)
        task = Task.objects.get(pk=run.task_id)
        first = task.last_sequence_number + 1
        with transaction.atomic():
            Task.objects.filter(pk=run.task_id).update(last_sequence_number=first + rows - 1)
            event_log.append_encoded(
                [(run.task_id, number, EventType.OUTPUT_TEXT_DELTA, data) for number in range(first, first + rows)]
            )
        ownership.beat()
        left -= rows
    return {}, []
