"""Everything that a person wants to know of one task."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from django.db.models import Count, Sum
from django.db.models.functions import Length

from tasks_app import checkpoints, inputs, lookup, ownership, responses, serializers
from tasks_app.console import explanations, listing
from tasks_app.models import Snapshot, Task, TaskEvent
from tasks_app.states import STATE_ANNOUNCED_BY, EventType


def details(task: Task) -> dict[str, Any]:
    """Return the task as the API shows it, with all that the API does not.

    Adds ``client``, ``request``, ``output_text``, ``timeline``, ``snapshot``, ``owner``, ``job_id``, ``due_at``,
    ``idempotency_keys``, ``note`` and what the error means.
    """
    place = lookup.position(task)
    item = serializers.task_object(task, place)
    if item["error"]:
        item["error"]["meaning"] = explanations.of(task.error_code)
    return {
        **item,
        "client": {"id": task.client.id, "name": task.client.name},
        "note": listing.note(task, place),
        "request": {**responses.of(task).request, "input": inputs.of(task.id)},
        "output_text": responses.output_text(responses.current(task)),
        "timeline": list(_timeline(task)),
        "snapshot": _snapshot(task),
        "owner": {"name": task.owner, "alive": not ownership.is_dead(task.owner)} if task.owner else None,
        "job_id": task.job_id or None,
        "due_at": responses.unix(task.claimable_at),
        "claims_without_progress": task.claims_without_progress,
        "idempotency_keys": list(task.idempotency_keys.values("endpoint", "key")),
        "ends_with_caller": task.ends_with_caller,
    }


def _timeline(task: Task) -> Iterator[dict[str, Any]]:
    """Yield each event of a state with how long it lasted, and the text that came in it.

    Times are Unix seconds with their fraction.
    """
    kinds = [EventType.CREATED, *STATE_ANNOUNCED_BY]
    states = list(
        TaskEvent.objects.filter(task=task, type__in=kinds)
        .order_by("sequence_number")
        .values_list("sequence_number", "type", "data", "created_ms")
    )
    texts = list(
        TaskEvent.objects.filter(task=task, type=EventType.OUTPUT_TEXT_DELTA)
        .order_by("sequence_number")
        .values_list("sequence_number", "created_ms")
    )
    for (number, kind, data, at), following in zip_longest(states, states[1:]):
        inside = [ms for sequence, ms in texts if number < sequence and (following is None or sequence < following[0])]
        text = {"events": len(inside), "first_at": inside[0] / 1000, "last_at": inside[-1] / 1000} if inside else None
        yield {
            "sequence_number": number,
            "type": kind,
            "at": at / 1000,
            "seconds": (following[3] - at) / 1000 if following else None,
            **_fields(data),
            "text": text,
        }


def _fields(data: str) -> dict[str, Any]:
    fields = json.loads(data)
    return {name: fields[name] for name in ("attempt", "resumed", "exact") if name in fields}


def _snapshot(task: Task) -> dict[str, Any] | None:
    """Return what is kept to resume the task, sizes in bytes."""
    snapshot = (
        Snapshot.objects.filter(pk=task.id)
        .annotate(prompt_bytes=Length("prompt"))
        .values("prompt_bytes", "slot", "fingerprint")
        .first()
    )
    if snapshot is None:
        return None
    journal = Snapshot.objects.filter(pk=task.id).aggregate(
        entries=Count("journal"), bytes=Sum(Length("journal__tokens"), default=0)
    )
    try:
        checkpoint = checkpoints.path_of(task.id).stat()
    except FileNotFoundError:
        checkpoint = None
    return {
        **snapshot,
        "journal_bytes": journal["bytes"],
        "journal_entries": journal["entries"],
        "checkpoint_bytes": checkpoint.st_size if checkpoint else 0,
    }
