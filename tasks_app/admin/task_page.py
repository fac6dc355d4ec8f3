"""What the page of one task shows: its timeline as a bar, its log by pages, request and answer."""

import json
import time
from datetime import UTC, datetime
from typing import Any

from django.contrib.admin.utils import quote
from django.http import QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from lmsp_site.strict_json import MAX_INTEGER
from tasks_app import event_log, responses
from tasks_app.admin import jobs
from tasks_app.console import figures, showing
from tasks_app.event_log import Entry
from tasks_app.models import Task
from tasks_app.states import STATE_ANNOUNCED_BY, EventType

_EVENTS = 100
_WIDTH = 1000.0
# So that what is short beside the rest can still be seen.
_LEAST_WIDTH = 3.0
_MOST_CHARACTERS = 200_000
_SHOWN_CHARACTERS = 300


def badge(status: str) -> SafeString:
    """Return a state as it is shown everywhere."""
    return format_html('<span class="state {}" data-cell="status">{}</span>', status, status)


def context(task: Task, parameters: QueryDict) -> dict[str, Any]:
    """Return everything that the template asks for."""
    item = showing.details(task)
    after = _cursor(parameters)
    entries = event_log.read(task.id, after, _EVENTS)
    response = responses.current(task)
    return {
        "task": task,
        "item": item,
        "badge": badge(task.status),
        "rows": _facts(task, item),
        "bar": _bar(item["timeline"], finished=task.finished),
        "timeline": [_step(entry) for entry in item["timeline"]],
        "text": item["output_text"][-_MOST_CHARACTERS:],
        "events": [_event(entry) for entry in entries],
        "events_after": after,
        "events_more": entries[-1].sequence_number if len(entries) == _EVENTS else None,
        "events_before": max(-1, after - _EVENTS) if after >= 0 else None,
        "last_number": task.last_sequence_number,
        "request_json": _pretty(item["request"]),
        "response_json": _pretty(response),
        "waits": task.status == "queued",
    }


def exported(task: Task) -> dict[str, Any]:
    """Return all that is known of a task, its whole log included, as JSON."""
    entries = event_log.read(task.id, -1, MAX_INTEGER)
    return {
        **showing.details(task),
        "response": responses.current(task),
        "events": [json.loads(entry.to_json()) for entry in entries],
    }


def _cursor(parameters: QueryDict) -> int:
    """Return the number after which events are shown; a jump shows the event that was asked for first."""
    for name, less in (("event", 1), ("after", 0)):
        text = parameters.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 16:
            return int(text) - less
    return -1


def _facts(task: Task, item: dict[str, Any]) -> list[tuple[str, str | SafeString]]:
    usage, snapshot, owner = item["usage"], item["snapshot"], item["owner"]
    facts = [
        ("Client", _link("clients_app_client", task.client_id, item["client"]["name"])),
        ("Model", _link("models_app_languagemodel", task.model, task.model)),
        ("Priority", item["priority"]),
        ("On restart", task.on_restart),
        ("Attempt", str(task.attempt)),
        ("Claims without progress", str(task.claims_without_progress) if task.claims_without_progress > 1 else ""),
        ("Tokens", f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out"),
        ("Accepted", _moment(task.created_at)),
        ("Waited", figures.span(figures.since(task.created_at, task.started_at or task.finished_at))),
        ("Ran", figures.span(figures.since(task.started_at, task.finished_at))),
        ("Finished", _moment(task.finished_at)),
        ("Expires", _moment(task.expires_at)),
        ("Not before", _moment(task.claimable_at)),
        ("Owner", f"{owner['name']}, {'alive' if owner['alive'] else 'dead'}" if owner else ""),
        ("Snapshot", _size_of(snapshot)),
        ("Idempotency keys", ", ".join(f"{key['key']} ({key['endpoint']})" for key in item["idempotency_keys"])),
        ("Metadata", ", ".join(f"{name}={value}" for name, value in item["metadata"].items())),
        ("Ends with its caller", "yes" if task.ends_with_caller else ""),
        ("Response", item["response_id"]),
        ("Job", _job(task)),
    ]
    return [(name, value) for name, value in facts if value]


def _link(page: str, key: str, text: str) -> SafeString:
    return format_html('<a href="{}" title="{}">{}</a>', reverse(f"admin:{page}_change", args=[quote(key)]), key, text)


def _job(task: Task) -> SafeString | str:
    """Return the runner's job that ran the task last, and where its page is."""
    if page := jobs.page_of(task.job_id):
        return format_html('<a href="{}">{}</a>', page, task.job_id)
    if not task.job_id:
        return ""
    # A job is written down when it has ended, and ends when nothing is queued any more.
    return (
        f"{task.job_id} ({'of earlier than the runner keeps, or still at other tasks' if task.finished else 'at it'})"
    )


def _size_of(snapshot: dict[str, Any] | None) -> str:
    if snapshot is None:
        return ""
    sizes = [(name, snapshot[f"{name}_bytes"]) for name in ("prompt", "journal", "checkpoint")]
    parts = ", ".join(f"{name} {figures.size(count)}" for name, count in sizes if count)
    return f"{figures.size(sum(count for _, count in sizes))}: {parts}"


def _bar(timeline: list[dict[str, Any]], *, finished: bool) -> list[dict[str, Any]]:
    """Return the states as pieces of a line of 1,000, with what each was and how long."""
    # A task is created and queued by one transaction.
    timeline = [entry for entry in timeline if entry["type"] != EventType.CREATED]
    if not timeline:
        return []
    ends = timeline[-1]["at"] if finished else time.time()
    spans = []
    for entry, following in zip(timeline, [*timeline[1:], None], strict=True):
        if finished and following is None:
            break
        seconds = max(0.0, (following["at"] if following else ends) - entry["at"])
        spans.append((_state(entry["type"]), entry.get("attempt"), seconds))
    whole = sum(seconds for *_, seconds in spans) or 1.0
    widths = [max(_LEAST_WIDTH, _WIDTH * seconds / whole) for *_, seconds in spans]
    scale, x, pieces = _WIDTH / sum(widths) if widths else 1.0, 0.0, []
    for (state, attempt, seconds), width in zip(spans, widths, strict=True):
        said = (
            f"{state}, attempt {attempt}: {figures.span(seconds)}" if attempt else f"{state}: {figures.span(seconds)}"
        )
        pieces.append({"state": state, "x": f"{x:.2f}", "width": f"{width * scale:.2f}", "title": said})
        x += width * scale
    return pieces


def _step(entry: dict[str, Any]) -> dict[str, Any]:
    told = [f"attempt {entry['attempt']}"] if "attempt" in entry else []
    if entry.get("resumed"):
        told.append("resumed" if entry["exact"] else "resumed, not exactly")
    if text := entry["text"]:
        first = figures.span(text["first_at"] - entry["at"])
        told.append(f"text in {text['events']} pieces, the first after {first}")
    return {
        "at": datetime.fromtimestamp(entry["at"], UTC),
        "state": _state(entry["type"]),
        "lasted": figures.span(entry["seconds"]) if entry["seconds"] else "",
        "told": ", ".join(told),
        "number": entry["sequence_number"],
    }


def _state(kind: str) -> str:
    state = STATE_ANNOUNCED_BY.get(EventType(kind))
    return str(state) if state else kind.removeprefix("response.")


def _pretty(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}\n… (the export has all of it)"


def _event(entry: Entry) -> dict[str, Any]:
    # Of a piece of text the text: the rest of its fields is the same for hundreds.
    is_text = entry.type == EventType.OUTPUT_TEXT_DELTA
    data = json.dumps(entry.fields()["delta"], ensure_ascii=False) if is_text else entry.data
    shown = data if len(data) <= _SHOWN_CHARACTERS else f"{data[:_SHOWN_CHARACTERS]}…"
    return {"number": entry.sequence_number, "type": entry.type, "data": shown}


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
