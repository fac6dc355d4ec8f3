"""The only writer of task_events, and the log as readers see it."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from django.db import connection

from tasks_app.states import TERMINAL_EVENTS, EventType

_INSERT = "INSERT INTO task_events (task_id, sequence_number, type, data, created_ms) VALUES (%s, %s, %s, %s, %s)"
_SELECT = (
    "SELECT sequence_number, type, data FROM task_events"
    " WHERE task_id = %s AND sequence_number > %s ORDER BY sequence_number LIMIT %s"
)
_SELECT_LAST = (
    "SELECT sequence_number, type, data FROM task_events WHERE task_id = %s ORDER BY sequence_number DESC LIMIT 1"
)
_SELECT_OF = "SELECT task_id, sequence_number, type, data FROM task_events WHERE task_id IN ({}) AND type IN ({})"
_PAGE = 1000
# What a stream holds of a log at once; one event may be larger.
_STREAM_PAGE, _STREAM_PAGE_BYTES = 500, 64 << 10


@dataclass(frozen=True, slots=True)
class Event:
    """An event before it has its number."""

    type: EventType
    data: dict[str, Any]


class Entry(NamedTuple):
    """An event as it stands in the log; `data` is the JSON text of its own fields."""

    sequence_number: int
    type: str
    data: str

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return self.type in TERMINAL_EVENTS

    def fields(self) -> dict[str, Any]:
        """Return the event's own fields."""
        fields: dict[str, Any] = orjson.loads(self.data)
        return fields

    def to_json(self) -> str:
        """Return the flat event object that JSON pages, SSE and websockets carry, without parsing the data."""
        head = f'{{"type":"{self.type}","sequence_number":{self.sequence_number}'
        return f"{head},{self.data[1:]}" if len(self.data) > 2 else f"{head}}}"


def encode(data: dict[str, Any]) -> str:
    """Return the fields of an event as they are stored."""
    return orjson.dumps(data).decode()


def append(task_id: str, first: int, events: Sequence[Event]) -> None:
    """Write `events` under the numbers from `first` on.

    The caller has taken those numbers in the UPDATE that changed the task, in this very transaction (R2).
    """
    append_encoded([(task_id, number, event.type, encode(event.data)) for number, event in enumerate(events, first)])


def append_encoded(rows: Sequence[tuple[str, int, EventType, str]]) -> None:
    """Write events of any tasks, each as task id, number, type and encoded fields; see ``append``."""
    assert connection.in_atomic_block, "an event and its task's change are one transaction"
    now = time.time_ns() // 1_000_000
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT, [(*row, now) for row in rows])


def read(task_id: str, after: int = -1, limit: int = 1000) -> list[Entry]:
    """Return up to `limit` entries with numbers greater than `after`, in order."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT, (task_id, after, limit))
        return [Entry(*row) for row in cursor.fetchall()]


def last(task_id: str) -> Entry | None:
    """Return the newest entry; of a finished task it is the terminal one, which holds the whole response."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_LAST, (task_id,))
        row = cursor.fetchone()
    return Entry(*row) if row else None


def read_page(task_id: str, after: int) -> list[Entry]:
    """Return the next entries as a stream takes them: as many as fit into a page, and one at least."""
    page: list[Entry] = []
    size = 0
    with connection.cursor() as cursor:
        cursor.execute(_SELECT, (task_id, after, _STREAM_PAGE))
        while size < _STREAM_PAGE_BYTES and (row := cursor.fetchone()):
            page.append(Entry(*row))
            size += len(page[-1].data)
    return page


def is_full(page: Sequence[Entry]) -> bool:
    """Tell whether there may be more after a page of ``read_page``."""
    return len(page) == _STREAM_PAGE or sum(len(entry.data) for entry in page) >= _STREAM_PAGE_BYTES


def read_of(task_ids: Collection[str], types: Collection[EventType]) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of some types in the logs of any tasks: each task's in order, with its id."""
    if not task_ids:
        return
    query = _SELECT_OF.format(", ".join(["%s"] * len(task_ids)), ", ".join(["%s"] * len(types)))
    with connection.cursor() as cursor:
        cursor.execute(f"{query} ORDER BY task_id, sequence_number", [*task_ids, *types])
        while rows := cursor.fetchmany(_PAGE):
            for task_id, *entry in rows:
                yield task_id, Entry._make(entry)
