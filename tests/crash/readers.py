"""Readers of a task's log who stay until its end, and come back to where they were when they are cut off."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosedError, InvalidHandshake, InvalidMessage
from websockets.sync.client import connect

from tests.service import Service
from tests.stream import sse

_BROKEN = (httpx.TransportError, ConnectionClosedError, InvalidHandshake, InvalidMessage, OSError, EOFError)
_TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
# Chapter 11's own events, which the stream of a response does not show.
_TASK_STREAM_ONLY = ("response.loading", "response.cancelling")


class Reader(threading.Thread):
    """One reader of one task.

    Args:
        service: the service, which may be killed meanwhile.
        http: a client of it, shared by all readers.
        task_id: whose log is read.
        way: one of ``WAYS``.
        abort: set when nobody needs the reader any more.
    """

    def __init__(self, service: Service, http: httpx.Client, task_id: str, way: str, abort: threading.Event) -> None:
        super().__init__(name=f"{way} of {task_id}", daemon=True)
        self.received: list[dict[str, Any]] = []
        self.ended = False
        self.interruptions = 0
        self.fault: str | None = None
        self._service = service
        self._http = http
        self._task_id = task_id
        self._way = way
        self._abort = abort

    def run(self) -> None:
        """Read to the end, from where it was after each interruption."""
        while not self._abort.is_set():
            try:
                WAYS[self._way](self)
            except _BROKEN:
                self.interruptions += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, the reader should not have met it
                self.fault = f"{type(error).__name__}: {error}"
                return
            else:
                self.ended = True
                return
            self._abort.wait(0.1)

    def expected(self, log: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what of a whole log this reader is shown."""
        if self._way != "response":
            return log
        return [event for event in log if event["type"] not in _TASK_STREAM_ONLY]

    @property
    def _cursor(self) -> int:
        return int(self.received[-1]["sequence_number"]) if self.received else -1

    def _task_stream(self) -> None:
        headers = {"Last-Event-ID": str(self._cursor)} if self.received else {}
        self._read_stream(f"/v1/tasks/{self._task_id}/events", headers=headers)

    def _response_stream(self) -> None:
        cursor = {"starting_after": self._cursor} if self.received else {}
        path = f"/v1/responses/{self._task_id.replace('task_', 'resp_', 1)}"
        self._read_stream(path, params={"stream": "true", **cursor})

    def _read_stream(self, path: str, **options: Any) -> None:
        with sse.stream(self._http, path, **options) as frames:
            for frame in frames:
                if frame.data == sse.DONE:
                    return
                self.received.append(frame.event)
        raise EOFError("the stream ended without saying so")

    def _websocket(self) -> None:
        url = f"ws://127.0.0.1:{self._service.port}/v1/tasks/{self._task_id}/events?after="
        headers = {"Authorization": f"Bearer {self._service.token}"}
        # The server takes the cursor as the number of the last event that was seen.
        url = f"{url}{self._cursor}" if self.received else url.partition("?")[0]
        with connect(url, additional_headers=headers, open_timeout=30) as opened:
            for message in opened:
                self.received.append(json.loads(message))
        if not self.received or self.received[-1]["type"] not in _TERMINAL:
            raise EOFError("the socket closed normally before the terminal event")

    def _pages(self) -> None:
        while not (self.received and self.received[-1]["type"] in _TERMINAL):
            cursor = {"after": self._cursor} if self.received else {}
            answer = self._http.get(f"/v1/tasks/{self._task_id}/events", params={"limit": 9, **cursor})
            assert answer.status_code == 200, answer.text
            page = answer.json()
            self.received += page["data"]
            if not page["has_more"] and self._abort.wait(0.25):
                raise EOFError("given up")


WAYS: dict[str, Callable[[Reader], None]] = {
    "sse": Reader._task_stream,
    "websocket": Reader._websocket,
    "pages": Reader._pages,
    "response": Reader._response_stream,
}
