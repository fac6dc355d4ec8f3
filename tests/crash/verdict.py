"""What must be true of a round's tasks when all is over: judged from the database's own rows, with no code of ours."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.crash.callers import Caller
from tests.crash.catalogue import Twin
from tests.service import Service

_TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "completed",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_DELTAS = {
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
}
_LOST_RUN = {"server_restarted", "worker_died", "engine_died"}


@dataclass(frozen=True)
class Stored:
    """A task as the database has it."""

    id: str
    status: str
    policy: str
    error_code: str
    request: str
    body: dict[str, Any] | None
    log: list[dict[str, Any]]

    @property
    def resumes(self) -> list[dict[str, Any]]:
        """The events by which it was resumed."""
        return [event for event in self.log if event.get("resumed")]

    @property
    def last_attempt(self) -> list[dict[str, Any]]:
        """The log from the last ``response.queued`` on: a retry's output starts anew there."""
        starts = [event["sequence_number"] for event in self.log if event["type"] == "response.queued"]
        return self.log[starts[-1] :] if starts else self.log

    @property
    def text(self) -> str:
        """The joined deltas of the last attempt, whatever items they are of."""
        return "".join(e["delta"] for e in self.last_attempt if e["type"] in _DELTAS)

    def equals(self, twin: Twin) -> bool:
        """Tell whether text and usage are those of the undisturbed run."""
        return self.text == twin.text and bool(self.body) and (self.body or {}).get("usage") == twin.usage


def stored(service: Service, prefix: str) -> dict[str, list[Stored]]:
    """Return the tasks of a round by their mark."""
    found: dict[str, list[Stored]] = {}
    rows = service.sql(
        "SELECT t.id, t.status, t.on_restart, t.error_code, json_extract(t.metadata, '$.soak'),"
        " json_extract(t.metadata, '$.request') FROM tasks t"
        " WHERE json_extract(t.metadata, '$.soak') LIKE ?",
        f"{prefix}-%",
    )
    for task_id, status, policy, error_code, mark, request in rows:
        events = service.sql(
            "SELECT type, sequence_number, data FROM task_events WHERE task_id = ? ORDER BY sequence_number", task_id
        )
        log = [{"type": kind, "sequence_number": number, **json.loads(data)} for kind, number, data in events]
        task = Stored(task_id, status, policy, error_code, request, log[-1].get("response"), log)
        found.setdefault(mark, []).append(task)
    return found


def judge(callers: Sequence[Caller], tasks: dict[str, list[Stored]], twins: dict[str, Twin]) -> Iterator[str]:
    """Yield every rule that was broken."""
    for caller in callers:
        mark = caller.order.mark
        yield from (f"{mark}: {fault}" for fault in caller.faults)
        mine = tasks.get(mark, [])
        if len(mine) > 1:
            yield f"{mark}: one order became {len(mine)} tasks"
        if caller.task_id and caller.task_id not in {task.id for task in mine}:
            yield f"{mark}: {caller.task_id} was accepted and is lost"
        for task in mine:
            faults = [*_log(task), *_outcome(task, twins[task.request], cancelled=bool(caller.cancel_answers))]
            if task.id == caller.task_id:
                faults += [*_cancels(task, caller), *_reader(task, caller)]
            yield from (f"{mark}: {task.id}: {fault}" for fault in faults)


def _log(task: Stored) -> Iterator[str]:
    if [event["sequence_number"] for event in task.log] != list(range(len(task.log))):
        yield "its sequence numbers have a gap"
    terminal = [event["type"] for event in task.log if event["type"] in _TERMINAL]
    if len(terminal) != 1 or task.log[-1]["type"] not in _TERMINAL:
        yield f"its terminal events are {terminal}, its last event is {task.log[-1]['type']}"
    elif _TERMINAL[terminal[0]] != task.status:
        yield f"it is {task.status} after {terminal[0]}"
    if task.body is None:
        yield "its response is not stored"
    elif _text_of(task.body) != task.text:
        yield f"its deltas say {task.text!r}, its stored text is {_text_of(task.body)!r}"
    added = Counter(e["output_index"] for e in task.last_attempt if e["type"].endswith("_item.added"))
    if max(added.values(), default=0) > 1:
        yield "an item was opened twice"


def _outcome(task: Stored, twin: Twin, *, cancelled: bool) -> Iterator[str]:
    if not twin.text.startswith(task.text):
        yield f"its text is not how its twin begins: {task.text!r}"
    if not all(event["exact"] for event in task.resumes):
        yield "it was resumed inexactly"
    match task.status:
        case "completed":
            if not task.equals(twin):
                yield f"{task.text!r}, {(task.body or {}).get('usage')} is not its twin {twin}"
        case "failed":
            if task.policy != "fail" or task.error_code not in _LOST_RUN:
                yield f"it failed with {task.error_code} under the policy {task.policy}"
        case "cancelled":
            if not cancelled:
                yield "it is cancelled, which nobody asked for"
        case unfinished:
            yield f"it is still {unfinished}"


def _cancels(task: Stored, caller: Caller) -> Iterator[str]:
    """Whatever a cancel answered stays true."""
    for answer in caller.cancel_answers:
        expected = "cancelled" if answer == "cancelling" else answer
        if task.status != expected:
            yield f"a cancel answered {answer}, and now it is {task.status}"


def _reader(task: Stored, caller: Caller) -> Iterator[str]:
    reader = caller.reader
    if reader is None:
        return
    if reader.fault:
        yield f"its {reader.name} met {reader.fault}"
    expected = reader.expected(task.log)
    if reader.received != expected[: len(reader.received)]:
        yield f"its {reader.name} was shown what is not in the log"
    elif reader.ended and len(reader.received) != len(expected):
        yield f"its {reader.name} ended after {len(reader.received)} of {len(expected)} events"
    elif not reader.ended and not reader.fault:
        yield f"its {reader.name} was never told the end"


def _text_of(body: dict[str, Any]) -> str:
    return "".join(_item_text(item) for item in body["output"])


def _item_text(item: dict[str, Any]) -> str:
    if item["type"] == "function_call":
        return str(item["arguments"])
    return "".join(part["text"] for part in item["summary" if item["type"] == "reasoning" else "content"])
