"""Tasks written into a service's database: logs as long, and tasks as idle, as none would get by running."""

import json
from datetime import UTC, datetime, timedelta

from tests.service import MODEL, Service

_TASK = (
    "INSERT INTO tasks (id, client_id, model, status, on_restart, metadata, last_sequence_number, created_at,"
    " finished_at, claimable_at) VALUES (?, ?, ?, ?, 'resume', '{}', ?, '2030-01-01 00:00:00', ?, ?)"
)
_RESPONSE = (
    "INSERT INTO responses (id, task_id, request, store, created_at) VALUES (?, ?, '{}', 1, '2030-01-01 00:00:00')"
)
_EVENT = "INSERT INTO task_events (task_id, sequence_number, type, data, created_ms) VALUES (?, ?, ?, ?, 0)"
_DELTAS = (
    "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?)"
    " INSERT INTO task_events (task_id, sequence_number, type, data, created_ms)"
    " SELECT ?, n, 'response.output_text.delta', ?, 0 FROM numbers"
)


def finished(service: Service, name: str, deltas: int, bytes_each: int = 200) -> str:
    """Write a finished task with so many deltas and a terminal event, and return its id."""
    task_id = _id(name)
    values = (task_id, service.client_id, MODEL, "completed", deltas, "2030-01-01 00:00:01", None)
    service.sql(_TASK, *values)
    service.sql(_RESPONSE, task_id.replace("task_", "resp_"), task_id)
    delta = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "x" * bytes_each}
    service.sql(_DELTAS, deltas, task_id, json.dumps(delta))
    service.sql(_EVENT, task_id, deltas, "response.completed", '{"response":{}}')
    return task_id


def idle(service: Service, name: str, client_id: str | None = None) -> str:
    """Write a task that is queued and will be for minutes, of the first client or another; return its id."""
    task_id = _id(name)
    # No task is ever to wait for longer than ten.
    due = datetime.now(UTC) + timedelta(minutes=9)
    service.sql(_TASK, task_id, client_id or service.client_id, MODEL, "queued", 1, None, f"{due:%Y-%m-%d %H:%M:%S}")
    service.sql(_RESPONSE, task_id.replace("task_", "resp_"), task_id)
    service.sql(_EVENT, task_id, 0, "response.created", '{"response":{}}')
    service.sql(_EVENT, task_id, 1, "response.queued", '{"response":{},"attempt":1}')
    return task_id


def _id(name: str) -> str:
    return f"task_{name:z>26}"
