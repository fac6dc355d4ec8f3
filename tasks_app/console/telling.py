"""One task in full, as text; see ``showing`` for what it tells."""

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.management.color import Style

from models_app.tool_prompts import as_text
from tasks_app import items
from tasks_app.console import colours, figures, listing, tables
from tasks_app.responses import DEFAULTS
from tasks_app.states import STATE_ANNOUNCED_BY, EventType

_LABEL = 12
_WIDEST = 100
# Of the input or the output; `tail` and --full show everything.
_MOST_CHARACTERS = 2000

Item = dict[str, Any]


class Page:
    """The lines of one task.

    Args:
        item: from ``showing.details``.
        style: Django's.
        width: columns of the terminal.
        full: whether long texts are shown to their end.
    """

    def __init__(self, item: Item, style: Style, width: int, *, full: bool) -> None:
        self._item = item
        self._style = style
        self._width = min(width, _WIDEST)
        self._full = full

    def lines(self) -> Iterator[str]:
        """Yield everything."""
        yield from self._head()
        if self._item["error"]:
            yield from self._error(self._item["error"])
        yield ""
        yield from self._request(self._item["request"])
        yield ""
        yield self._heading("Timeline (UTC)")
        yield from self._timeline(self._item["timeline"])
        yield ""
        yield from self._text("Output", self._item["output_text"], from_end=True)

    def _head(self) -> Iterator[str]:
        item, usage = self._item, self._item["usage"]
        status = colours.of_status(self._style, item["status"])(item["status"])
        yield f"{self._heading(item['id'])}  {status}{'  ' if item['note'] else ''}{tables.tame(item['note'])}"
        yield from self._field("response", item["response_id"])
        yield from self._field("client", f"{item['client']['name']} ({item['client']['id']})")
        yield from self._field("model", item["model"])
        yield from self._field("policy", f"on_restart {item['on_restart']}, priority {item['priority']}")
        yield from self._field("attempt", self._attempt())
        yield from self._field("tokens", f"{usage['input_tokens']} in, {usage['output_tokens']} out")
        yield from self._field("progress", listing.phase(item["progress"]))
        yield from self._field("snapshot", self._snapshot())
        yield from self._field("owner", self._owner())
        yield from self._field("job", item["job_id"])
        yield from self._field("keys", ", ".join(f"{k['key']} ({k['endpoint']})" for k in item["idempotency_keys"]))
        yield from self._field("metadata", ", ".join(f"{name}={value}" for name, value in item["metadata"].items()))

    def _attempt(self) -> str:
        without = self._item["claims_without_progress"]
        return f"{self._item['attempt']}" + (f", {without} claims without progress" if without > 1 else "")

    def _snapshot(self) -> str:
        snapshot = self._item["snapshot"]
        if snapshot is None:
            return ""
        sizes = {name: snapshot[f"{name}_bytes"] for name in ("prompt", "journal", "checkpoint")}
        parts = [f"{name} {figures.size(count)}" for name, count in sizes.items() if count]
        slot = "" if snapshot["slot"] is None else f", slot {snapshot['slot']}"
        return " + ".join(parts) + slot

    def _owner(self) -> str:
        owner = self._item["owner"]
        return f"{owner['name']}, {'alive' if owner['alive'] else 'dead'}" if owner else ""

    def _error(self, error: Item) -> Iterator[str]:
        yield from self._field("error", f"{self._style.ERROR(error['code'])}: {error['message']}")
        yield from self._field("", error["meaning"])

    def _request(self, request: Item) -> Iterator[str]:
        asked = {name: request[name] for name in DEFAULTS if name in request and request[name] != DEFAULTS[name]}
        instructions = asked.pop("instructions", None)
        asked.pop("reading", None)
        if tools := asked.pop("tools", None):
            asked["tools"] = " ".join(tool["name"] for tool in tools)
        yield self._heading("Request")
        yield from self._field("sampling", ", ".join(f"{name} {value}" for name, value in asked.items()))
        if instructions:
            yield from self._field("instructions", self._shortened(instructions))
        for message in as_text(items.messages(request["input"])):
            yield from self._field(message["role"], self._shortened(message["content"]))

    def _timeline(self, timeline: list[Item]) -> Iterator[str]:
        for entry in timeline:
            kind = EventType(entry["type"])
            state = STATE_ANNOUNCED_BY.get(kind)
            name = "running" if kind is EventType.IN_PROGRESS else kind.removeprefix("response.")
            painted = colours.of_status(self._style, state)(f"{name:<11}") if state else f"{name:<11}"
            lasted = f"for {figures.span(entry['seconds'])}" if entry["seconds"] else ""
            yield f"  {_moment(entry['at'])}  {painted} {lasted:<12} {_told(entry)}".rstrip()
            if text := entry["text"]:
                began, took = text["first_at"] - entry["at"], text["last_at"] - text["first_at"]
                yield (
                    f"  {_moment(text['first_at'])}    text      "
                    f"for {figures.span(took):<8} {text['events']} pieces, the first after {figures.span(began)}"
                )

    def _text(self, title: str, text: str, *, from_end: bool) -> Iterator[str]:
        left_out = 0 if self._full else max(0, len(text) - _MOST_CHARACTERS)
        told = f", the last {_MOST_CHARACTERS} shown (--full shows all)" if left_out else ""
        yield f"{self._heading(title)}  {len(text):,} characters{told}"
        if text:
            yield tables.tame(text[left_out:] if from_end else text[:_MOST_CHARACTERS], lines=True)

    def _shortened(self, text: str) -> str:
        if self._full or len(text) <= _MOST_CHARACTERS:
            return text
        return f"{text[:_MOST_CHARACTERS]}… ({len(text):,} characters; --full shows all)"

    def _field(self, name: str, value: str | None) -> Iterator[str]:
        """Yield one labelled value, wrapped; nothing where there is none."""
        if not value:
            return
        label = f"{name}:" if name else ""
        for paragraph in tables.tame(value, lines=True).splitlines() or [""]:
            for line in textwrap.wrap(paragraph, max(20, self._width - _LABEL - 4)) or [""]:
                yield f"  {label:<{_LABEL}}  {line}".rstrip()
                label = ""

    def _heading(self, text: str) -> str:
        return self._style.MIGRATE_LABEL(text)


def _moment(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def _told(entry: Item) -> str:
    parts = [f"attempt {entry['attempt']}"] if "attempt" in entry else []
    if entry.get("resumed"):
        parts.append("resumed" if entry["exact"] else "resumed, not exactly")
    return ", ".join(parts)
