"""A task's text on one stream, and what happens to it on another."""

from collections.abc import Callable
from typing import TextIO

from tasks_app.console import colours, following, tables
from tasks_app.event_log import Entry
from tasks_app.models import Task
from tasks_app.output import Output
from tasks_app.states import STATE_ANNOUNCED_BY, EventType


class Watcher:
    """Takes in a task's entries and keeps what they add up to."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.events = 0
        self.status = ""
        self.output = Output(task_id)

    def watch(self, show: Callable[[Entry], None]) -> None:
        """Follow the task to its end and let `show` see each entry before it is taken in."""
        for entry in following.follow(self.task_id):
            show(entry)
            self.events += 1
            self.output.apply(entry)
            if state := STATE_ANNOUNCED_BY.get(EventType(entry.type)):
                self.status = state
        if not Task.objects.filter(pk=self.task_id).exists():
            self.status = "deleted"


class Screen:
    """Shows a task's text alone on `out`, so that it can be piped, and its states on `aside`."""

    def __init__(self, watcher: Watcher, out: TextIO, aside: TextIO) -> None:
        self._watcher = watcher
        self._out = out
        self._aside = aside
        self._tamed = out.isatty()
        self._shares_line = False

    def show(self, entry: Entry) -> None:
        """Show one entry, if it is text or a state."""
        if entry.type == EventType.OUTPUT_TEXT_DELTA:
            self._text(entry.fields()["delta"])
        elif entry.type in STATE_ANNOUNCED_BY:
            self._state(entry)

    def _text(self, text: str) -> None:
        self._out.write(tables.tame(text, lines=True) if self._tamed else text)
        self._out.flush()
        self._shares_line = self._tamed and not text.endswith("\n")

    def _state(self, entry: Entry) -> None:
        said = entry.type.removeprefix("response.").replace("_", " ")
        fields = entry.fields()
        if entry.type == EventType.QUEUED and self._watcher.output.has_begun:
            said = f"queued again for attempt {fields['attempt']}: the text starts anew"
        elif fields.get("resumed"):
            said = f"resumed by attempt {fields['attempt']}" + ("" if fields["exact"] else ", not exactly")
        elif entry.is_terminal:
            said += _why(fields["response"])
        self.aside(f"[{entry.sequence_number}] {said}")

    def aside(self, text: str) -> None:
        """Say something beside the text."""
        self.end_line()
        self._aside.write(colours.dim(self._aside, tables.tame(text, lines=True)) + "\n")
        self._aside.flush()

    def end_line(self) -> None:
        """Let what follows begin in a line of its own; the text itself stays as it is."""
        if self._shares_line:
            self._aside.write("\n")
            self._aside.flush()
            self._shares_line = False


def _why(response: dict[str, object]) -> str:
    match response:
        case {"error": {"code": str(code), "message": str(message)}}:
            return f": {code}: {message}"
        case {"incomplete_details": {"reason": str(reason)}}:
            return f": {reason}"
    return ""
