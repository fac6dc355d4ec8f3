"""Server-sent events as they come over the wire."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

ACCEPT = {"Accept": "text/event-stream"}
DONE = "[DONE]"


@dataclass(frozen=True)
class Frame:
    """One event, field by field; a field that was not sent is None."""

    fields: tuple[tuple[str, str], ...]

    def field(self, name: str) -> str | None:
        """Return the only field of that name."""
        values = [value for key, value in self.fields if key == name]
        assert len(values) < 2, f"{name} came {len(values)} times in {self.fields}"
        return values[0] if values else None

    @property
    def data(self) -> str:
        data = self.field("data")
        assert data is not None
        return data

    @property
    def event(self) -> dict[str, Any]:
        """The event object that the frame carries."""
        event: dict[str, Any] = json.loads(self.data)
        return event


def frames(answer: httpx.Response) -> Iterator[Frame]:
    """Yield the events of a stream as they come; fail on anything a strict parser would not take."""
    assert answer.status_code == 200, answer.read()
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    buffer = ""
    for piece in answer.iter_raw():
        buffer += piece.decode()
        assert "\r" not in buffer
        while "\n\n" in buffer:
            block, _, buffer = buffer.partition("\n\n")
            lines = [line.partition(": ") for line in block.split("\n") if not line.startswith(":")]
            if lines:
                yield Frame(tuple((name, value) for name, _, value in lines))
    assert not buffer, f"the stream ended within a frame: {buffer!r}"


@contextmanager
def stream(http: httpx.Client, path: str, **options: Any) -> Iterator[Iterator[Frame]]:
    """Open a stream and hand out its events; leaving the block hangs up."""
    headers = {**ACCEPT, **options.pop("headers", {})}
    method = options.pop("method", "GET")
    with http.stream(method, path, headers=headers, **options) as answer:
        yield frames(answer)


def read(http: httpx.Client, path: str, **options: Any) -> list[Frame]:
    """Read a stream to its end."""
    with stream(http, path, **options) as arriving:
        return list(arriving)


def events(received: Sequence[Frame]) -> list[dict[str, Any]]:
    """Return the event objects of a whole stream, and see that it ended as it should."""
    assert [frame.data == DONE for frame in received] == [False] * (len(received) - 1) + [True]
    assert received[-1].fields == (("data", DONE),)
    return [frame.event for frame in received[:-1]]
