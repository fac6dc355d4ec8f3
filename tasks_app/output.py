"""The output of one attempt: text as events, and events as output items.

Whoever writes the log and whoever reads it back use the same object, so that a resumed run goes on where the
log ends and the stored response is what a reader of the log has put together.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from models_app.parsing.parser import OutputParser
from models_app.parsing.segments import Arguments, Call, Closed, Reasoning, Segment, Text, merged
from tasks_app import event_log
from tasks_app.event_log import Entry, Event
from tasks_app.items import Item, new_call_id, new_output_id
from tasks_app.output_items import (
    DELTAS,
    GROWING,
    GrowingCall,
    GrowingItem,
    GrowingMessage,
    GrowingReasoning,
    Logprob,
)
from tasks_app.states import EventType

_TYPES = (EventType.QUEUED, EventType.OUTPUT_ITEM_ADDED, EventType.OUTPUT_ITEM_DONE, *sorted(DELTAS))


class Output:
    """Items, of which the last one may still be growing.

    Args:
        task_id: whose output it is.
        parser: takes the model's text apart; without one all of it is the text of one message.
    """

    def __init__(self, task_id: str, parser: OutputParser | None = None) -> None:
        self._task_id = task_id
        self._parser = parser
        self._items: list[GrowingItem] = []
        self.reasoning_tokens = 0
        """How many of the output's tokens are reasoning, as far as that is known."""

    @property
    def text(self) -> str:
        """The text of all messages so far."""
        return "".join(item.text for item in self._items if isinstance(item, GrowingMessage))

    @property
    def has_begun(self) -> bool:
        """Whether a reader has seen anything of it."""
        return bool(self._items)

    @property
    def has_reasoning(self) -> bool:
        """Whether some of it is reasoning."""
        return any(isinstance(item, GrowingReasoning) for item in self._items)

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the model's text counts: it has made as many calls as it may."""
        return self._parser is not None and self._parser.is_over

    @classmethod
    def of(cls, task_id: str, parser: OutputParser | None = None) -> "Output":
        """Fold the log of `task_id` into the output it holds: that of the last attempt that started anew."""
        output = cls.of_each([task_id])[task_id]
        output._parser = parser
        return output

    @classmethod
    def of_each(cls, task_ids: Collection[str]) -> "dict[str, Output]":
        """Do the same for many tasks in one go, and return their outputs by id."""
        outputs = {task_id: cls(task_id) for task_id in task_ids}
        for task_id, entry in event_log.read_of(task_ids, _TYPES):
            outputs[task_id].apply(entry)
        return outputs

    def apply(self, entry: Entry) -> None:
        """Take in the next entry of a log."""
        if entry.type in DELTAS:
            fields = entry.fields()
            # A row that came into the log by another way may belong to no item.
            place = fields.get("output_index", 0)
            if place < len(self._items):
                self._items[place].add(fields["delta"], fields.get("logprobs", ()))
        elif entry.type == EventType.OUTPUT_ITEM_ADDED:
            item = entry.fields()["item"]
            self._items.append(GROWING[item["type"]](len(self._items), item))
        elif entry.type == EventType.OUTPUT_ITEM_DONE:
            fields = entry.fields()
            self._items[fields["output_index"]].status = fields["item"].get("status", "completed")
        elif entry.type == EventType.QUEUED:
            # A retry: readers drop what they had.
            self._items = []

    def take_up(self, text: str) -> bool:
        """Go on after what a journal has, and tell whether the log says the same; its text is not written again."""
        if self._parser is None:
            return text == self.text
        return merged(self._parser.feed(text)) == [segment for item in self._items for segment in _segments(item)]

    def write(self, text: str, logprobs: Sequence[Logprob] = ()) -> list[Event]:
        """Add what the model has written and return the events that say so; the first of an item open it.

        A delta has the log probabilities of the tokens that came with it, and is empty where their text is held back:
        a run that goes on from the log must not ask for them again. Of tokens that came with no text of an answer,
        such as those of a call, nothing is told.
        """
        segments = self._parser.feed(text) if self._parser is not None else [Text(text)]
        if logprobs and not any(isinstance(segment, Text) for segment in segments) and self._is_in_message:
            segments = [Text(""), *segments]
        return self._tell(segments, logprobs)

    def close(self, status: str) -> list[Event]:
        """Return the events that end it; `status` is ``completed`` or ``incomplete``.

        A call whose arguments are not whole is incomplete in any case, and an output is never without an item.
        """
        events = self._tell(self._parser.finish()) if self._parser is not None else []
        if not self._items:
            events += self._tell([Text("")])
        return events + self._end(status)

    def items(self, status: str) -> list[Item]:
        """Return the response's ``output``: nothing before the first token; what is still open has `status`."""
        return [item.as_item(status) for item in self._items]

    @property
    def _is_in_message(self) -> bool:
        return bool(self._items) and isinstance(self._items[-1], GrowingMessage) and self._items[-1].status is None

    def _tell(self, segments: Iterable[Segment], logprobs: Sequence[Logprob] = ()) -> list[Event]:
        events: list[Event] = []
        for segment in merged(segments):
            match segment:
                case Text(text):
                    events += self._grow(GrowingMessage, text, logprobs)
                    logprobs = ()
                case Reasoning(text):
                    events += self._grow(GrowingReasoning, text)
                case Call(name):
                    events += self._open(GrowingCall, call_id=new_call_id(), name=name)
                case Arguments(text):
                    events.append(self._items[-1].write(text))
                case Closed(whole):
                    events += self._end("completed" if whole else "incomplete")
        return events

    def _grow(self, kind: type[GrowingItem], text: str, logprobs: Sequence[Logprob] = ()) -> list[Event]:
        last = self._items[-1] if self._items else None
        events = [] if isinstance(last, kind) and last.status is None else self._open(kind)
        return [*events, self._items[-1].write(text, logprobs)] if text or logprobs else events

    def _open(self, kind: type[GrowingItem], **fields: Any) -> list[Event]:
        events = self._end("completed")
        item = kind(len(self._items), {"id": new_output_id(self._task_id, kind.kind), **fields})
        self._items.append(item)
        return [*events, *item.opening()]

    def _end(self, status: str) -> list[Event]:
        if not self._items or self._items[-1].status is not None:
            return []
        return self._items[-1].close(status)


def _segments(item: GrowingItem) -> list[Segment]:
    """Return what a parser has said for an item to be as it is."""
    closed: list[Segment] = [Closed(item.status == "completed")] if item.status else []
    match item:
        case GrowingCall():
            return [Call(item.name), *([Arguments(item.text)] if item.text else []), *closed]
        case GrowingReasoning():
            return [Reasoning(item.text), *closed]
        case _:
            return [Text(item.text)]
