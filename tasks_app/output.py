"""The output of one attempt: text as events, and events as output items.

Whoever writes the log and whoever reads it back use the same object, so that a resumed run goes on where the
log ends and the stored response is what a reader of the log has put together.
"""

from collections.abc import Collection, Sequence
from typing import Any

from tasks_app import event_log
from tasks_app.event_log import Entry, Event
from tasks_app.items import Item, new_output_id, text_part
from tasks_app.states import EventType

_TYPES = (EventType.QUEUED, EventType.OUTPUT_ITEM_ADDED, EventType.OUTPUT_TEXT_DELTA)


class Output:
    """One assistant message with one text part, growing."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self.item_id: str | None = None
        self._parts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        """All text so far."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @classmethod
    def of(cls, task_id: str) -> "Output":
        """Fold the log of `task_id` into the output it holds: that of the last attempt that started anew."""
        return cls.of_each([task_id])[task_id]

    @classmethod
    def of_each(cls, task_ids: Collection[str]) -> "dict[str, Output]":
        """Do the same for many tasks in one go, and return their outputs by id."""
        outputs = {task_id: cls(task_id) for task_id in task_ids}
        for task_id, entry in event_log.read_of(task_ids, _TYPES):
            outputs[task_id].apply(entry)
        return outputs

    def apply(self, entry: Entry) -> None:
        """Take in the next entry of a log."""
        if entry.type == EventType.OUTPUT_TEXT_DELTA:
            fields = entry.fields()
            self._parts.append(fields["delta"])
            self._logprobs += fields["logprobs"]
        elif entry.type == EventType.OUTPUT_ITEM_ADDED:
            self.item_id = entry.fields()["item"]["id"]
        elif entry.type == EventType.QUEUED:
            # A retry: readers drop what they had.
            self.item_id, self._parts, self._logprobs = None, [], []

    def write(self, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> list[Event]:
        """Add `text` and return the events that say so; the first opens the message and its part.

        A delta has the log probabilities of the tokens that came with it, and is empty where their text is held back:
        a run that goes on from the log must not ask for them again.
        """
        events = self._open()
        if text or logprobs:
            self._parts.append(text)
            self._logprobs += logprobs
            said = {**self._part_address(), "delta": text, "logprobs": [*logprobs]}
            events.append(Event(EventType.OUTPUT_TEXT_DELTA, said))
        return events

    def close(self, status: str) -> list[Event]:
        """Return the events that end part and message; `status` is ``completed`` or ``incomplete``."""
        events = self._open()
        address = self._part_address()
        events.append(Event(EventType.OUTPUT_TEXT_DONE, {**address, "text": self.text, "logprobs": [*self._logprobs]}))
        events.append(Event(EventType.CONTENT_PART_DONE, {**address, "part": self._part()}))
        item = self._item(status)
        events.append(Event(EventType.OUTPUT_ITEM_DONE, {"output_index": 0, "item": item}))
        return events

    def items(self, status: str) -> list[Item]:
        """Return the response's ``output``: nothing before the first token."""
        return [self._item(status)] if self.item_id else []

    def _open(self) -> list[Event]:
        if self.item_id:
            return []
        self.item_id = new_output_id(self._task_id)
        item = {**self._item("in_progress"), "content": []}
        return [
            Event(EventType.OUTPUT_ITEM_ADDED, {"output_index": 0, "item": item}),
            Event(EventType.CONTENT_PART_ADDED, {**self._part_address(), "part": text_part("assistant", "")}),
        ]

    def _part_address(self) -> dict[str, Any]:
        return {"item_id": self.item_id, "output_index": 0, "content_index": 0}

    def _part(self) -> dict[str, Any]:
        return text_part("assistant", self.text, self._logprobs)

    def _item(self, status: str) -> Item:
        return {
            "type": "message",
            "id": self.item_id,
            "status": status,
            "role": "assistant",
            "content": [self._part()],
        }
