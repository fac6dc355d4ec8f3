"""The caller: streamed responses over plain sockets, as many at once as asked for, in one thread.

It does for each event what every client must do, cut it out of the stream and parse its JSON, and nothing else: it
shares the machine with what it measures.
"""

import json
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

TIMEOUT = 300.0
"""Seconds without any event after which a stream is given up."""

_DELTA = "response.output_text.delta"
_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


class CallError(RuntimeError):
    """A call that did not go as it must for anything to be measured."""


class Answer:
    """One streamed response, and when its parts came, in seconds after the call began."""

    def __init__(self, began: float) -> None:
        self.seconds = 0.0
        self.events = 0
        self.arrived: dict[str, float] = {}
        """When the first event of each type came."""

        self.deltas_at: list[float] = []
        """When each piece of text came, by `time.perf_counter`."""

        self.response: dict[str, Any] = {}
        self._began = began
        self._deltas: list[str] = []

    @property
    def text(self) -> str:
        """The whole output, joined from its pieces."""
        return "".join(self._deltas)

    @property
    def first_token(self) -> float:
        """When the first text came."""
        return self.arrived[_DELTA]

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt, as the service counts them."""
        return int(self.response["usage"]["input_tokens"])

    @property
    def output_tokens(self) -> int:
        """Tokens of the output, as the service counts them."""
        return int(self.response["usage"]["output_tokens"])

    def take(self, event: dict[str, Any]) -> None:
        """Note an event at the moment it comes."""
        self.events += 1
        if event["type"] not in self.arrived:
            self.arrived[event["type"]] = time.perf_counter() - self._began
        if event["type"] == _DELTA:
            self.deltas_at.append(time.perf_counter())
            self._deltas.append(event["delta"])
        elif event["type"] in _ENDS:
            self.seconds = time.perf_counter() - self._began
            self.response = event["response"]

    def check(self) -> None:
        """Raise `CallError` unless this is a whole answer."""
        status = self.response.get("status")
        if status not in ("completed", "incomplete"):
            raise CallError(f"a response ended as {status or 'nothing'}: {self.response.get('error')}")


class ChatAnswer(Answer):
    """One streamed chat completion, of any server that speaks it."""

    reason = ""
    """Why it ended."""

    def take(self, event: dict[str, Any]) -> None:
        """Note a chunk at the moment it comes."""
        self.events += 1
        for choice in event.get("choices", ()):
            if text := choice["delta"].get("content"):
                self.arrived.setdefault(_DELTA, time.perf_counter() - self._began)
                self._deltas.append(text)
            if choice.get("finish_reason"):
                self.seconds = time.perf_counter() - self._began
                self.reason = choice["finish_reason"]

    def check(self) -> None:
        """Raise `CallError` unless this is a whole answer."""
        if self.reason not in ("length", "stop"):
            raise CallError(f"a chat completion ended as {self.reason or 'nothing'}")


A = TypeVar("A", bound=Answer)


def stream(
    address: tuple[str, int], path: str, token: str, bodies: Sequence[dict[str, Any]], answer: type[A]
) -> list[A]:
    """POST all bodies at once, follow the streams to their ends, and return the answers in the same order.

    Each clock starts before its connection is made, those of several at the same moment.
    """
    began = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        calls = [_Call(address, _request(address, path, token, body), answer(began)) for body in bodies]
        for call in calls:
            selector.register(call.socket, selectors.EVENT_READ, call)
        while selector.get_map():
            ready = selector.select(TIMEOUT)
            if not ready:
                raise CallError(f"nothing came for {TIMEOUT} s")
            for key, _ in ready:
                if not key.data.read():
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    for call in calls:
        call.answer.check()
    return [call.answer for call in calls]


def _request(address: tuple[str, int], path: str, token: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        "Accept: text/event-stream\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content


class _Call(Generic[A]):
    """One connection: HTTP/1.1, chunks, server-sent events."""

    def __init__(self, address: tuple[str, int], request: bytes, answer: A) -> None:
        self.answer = answer
        self.socket = socket.create_connection(address, timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(request)
        self._received = b""
        self._body = b""
        self._in_body = False

    def read(self) -> bool:
        """Take what has come; False at the end of the stream."""
        data = self.socket.recv(65536)
        if not data:
            return False
        self._received += data
        if not self._in_body and not self._read_head():
            return True
        self._unchunk()
        *lines, self._body = self._body.split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                self.answer.take(json.loads(line[6:]))
        return True

    def _read_head(self) -> bool:
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return False
        status = head.split(b" ", 2)[1]
        if status != b"200" or b"transfer-encoding: chunked" not in head.lower():
            raise CallError(f"not a stream: {head.decode('latin-1')}\n{rest.decode('utf-8', 'replace')}")
        self._received, self._in_body = rest, True
        return True

    def _unchunk(self) -> None:
        """Move the chunks that are complete from what was received to the body."""
        while True:
            size, found, rest = self._received.partition(b"\r\n")
            if not found:
                return
            length = int(size, 16)
            if len(rest) < length + 2:
                return
            self._body += rest[:length]
            self._received = rest[length + 2 :]
