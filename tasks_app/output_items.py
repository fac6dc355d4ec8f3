"""The items of an output while they grow: what each is, and the events that tell of it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from tasks_app.event_log import Event
from tasks_app.items import Item, text_part
from tasks_app.states import EventType

Logprob = dict[str, Any]


class GrowingItem(ABC):
    """An item at its place in the output, with text that is added to it until it is closed."""

    kind: ClassVar[str]
    delta_type: ClassVar[EventType]

    def __init__(self, index: int, item: Item) -> None:
        self.id: str = item["id"]
        self.status: str | None = None
        """How it was closed; ``None`` while it grows."""

        self._index = index
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """All text so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    def add(self, text: str, logprobs: Sequence[Logprob] = ()) -> None:
        """Take in what a delta says."""
        self._texts.append(text)

    def write(self, text: str, logprobs: Sequence[Logprob] = ()) -> Event:
        """Add `text` and return the event that says so."""
        self.add(text, logprobs)
        return Event(self.delta_type, {**self._address(), "delta": text, **self._beside_text(logprobs)})

    def opening(self) -> list[Event]:
        """Return the events that open it."""
        item = {**self.as_item("in_progress"), **self._empty()}
        return [Event(EventType.OUTPUT_ITEM_ADDED, {"output_index": self._index, "item": item})]

    def close(self, status: str) -> list[Event]:
        """Return the events that end it; `status` is ``completed`` or ``incomplete``."""
        self.status = status
        done = {"output_index": self._index, "item": self.as_item(status)}
        return [*self._ending(), Event(EventType.OUTPUT_ITEM_DONE, done)]

    @abstractmethod
    def as_item(self, status: str) -> Item:
        """Return the API's object; `status` counts while it grows."""

    @abstractmethod
    def _empty(self) -> dict[str, Any]:
        """Return what is different in it before it has a part."""

    @abstractmethod
    def _ending(self) -> list[Event]:
        """Return the events that end its text."""

    def _address(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self._index}

    def _beside_text(self, logprobs: Sequence[Logprob]) -> dict[str, Any]:
        return {}


class GrowingMessage(GrowingItem):
    """A message of the assistant with one text part."""

    kind = "message"
    delta_type = EventType.OUTPUT_TEXT_DELTA

    def __init__(self, index: int, item: Item) -> None:
        super().__init__(index, item)
        self._logprobs: list[Logprob] = []

    def add(self, text: str, logprobs: Sequence[Logprob] = ()) -> None:
        """Keep what is known of the tokens, too."""
        super().add(text, logprobs)
        self._logprobs += logprobs

    def opening(self) -> list[Event]:
        """Open the part, too."""
        part = {**self._address(), "part": text_part("assistant", "")}
        return [*super().opening(), Event(EventType.CONTENT_PART_ADDED, part)]

    def as_item(self, status: str) -> Item:
        """Return the message."""
        message = {"type": "message", "id": self.id, "status": self.status or status, "role": "assistant"}
        return {**message, "content": [self._part()]}

    def _empty(self) -> dict[str, Any]:
        return {"content": []}

    def _ending(self) -> list[Event]:
        return [
            Event(EventType.OUTPUT_TEXT_DONE, {**self._address(), "text": self.text, "logprobs": [*self._logprobs]}),
            Event(EventType.CONTENT_PART_DONE, {**self._address(), "part": self._part()}),
        ]

    def _address(self) -> dict[str, Any]:
        return {**super()._address(), "content_index": 0}

    def _beside_text(self, logprobs: Sequence[Logprob]) -> dict[str, Any]:
        return {"logprobs": [*logprobs]}

    def _part(self) -> dict[str, Any]:
        return text_part("assistant", self.text, self._logprobs)


class GrowingReasoning(GrowingItem):
    """What the model has thought, as one part of a summary."""

    kind = "reasoning"
    delta_type = EventType.REASONING_SUMMARY_TEXT_DELTA

    def opening(self) -> list[Event]:
        """Open the part, too."""
        part = {**self._address(), "part": _summary("")}
        return [*super().opening(), Event(EventType.REASONING_SUMMARY_PART_ADDED, part)]

    def as_item(self, status: str) -> Item:
        """Return the reasoning, which has no status."""
        return {"type": "reasoning", "id": self.id, "summary": [_summary(self.text)]}

    def _empty(self) -> dict[str, Any]:
        return {"summary": []}

    def _ending(self) -> list[Event]:
        return [
            Event(EventType.REASONING_SUMMARY_TEXT_DONE, {**self._address(), "text": self.text}),
            Event(EventType.REASONING_SUMMARY_PART_DONE, {**self._address(), "part": _summary(self.text)}),
        ]

    def _address(self) -> dict[str, Any]:
        return {**super()._address(), "summary_index": 0}


class GrowingCall(GrowingItem):
    """A call of a function; its text is the JSON text of the arguments."""

    kind = "function_call"
    delta_type = EventType.FUNCTION_CALL_ARGUMENTS_DELTA

    def __init__(self, index: int, item: Item) -> None:
        super().__init__(index, item)
        self.name: str = item["name"]
        self._call_id: str = item["call_id"]

    def as_item(self, status: str) -> Item:
        """Return the call."""
        return {
            "type": "function_call",
            "id": self.id,
            "call_id": self._call_id,
            "name": self.name,
            "arguments": self.text,
            "status": self.status or status,
        }

    def _empty(self) -> dict[str, Any]:
        return {"arguments": ""}

    def _ending(self) -> list[Event]:
        return [Event(EventType.FUNCTION_CALL_ARGUMENTS_DONE, {**self._address(), "arguments": self.text})]


GROWING: dict[str, type[GrowingItem]] = {kind.kind: kind for kind in (GrowingMessage, GrowingReasoning, GrowingCall)}
DELTAS = frozenset(kind.delta_type for kind in GROWING.values())


def _summary(text: str) -> dict[str, str]:
    return {"type": "summary_text", "text": text}
