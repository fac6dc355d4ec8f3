"""An engine behind a socket: one connection, one generation; hanging up cancels it.

Two threads. The decode thread runs the engine and sends what comes of it, without ever waiting for a reader. The IO
thread takes connections and requests, notices who hangs up, sends on to readers that were slow, and says every second
that both are alive.
"""

import logging
import os
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from models_app.engines import memory, messages
from models_app.engines.base import Engine, GenerateRequest, RequestError
from models_app.engines.connection import Connection
from models_app.engines.logprobs import TokenLogprob
from models_app.engines.messages import Failed, Finished, Message, Progress, Tokens
from models_app.engines.wire import WireError

_log = logging.getLogger(__name__)

MAX_OUTBOX = 8 * 1024 * 1024
"""Bytes that a reader may leave lying before it is hung up on."""

_PROGRESS_INTERVAL = 0.1
_PULSE_INTERVAL = 1.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sign of life.

    `step_seconds` is how long the step that is being computed has taken so far, 0 between two; `generations` how many
    callers are connected to generate, and `idle_seconds` how long there has been none; `used` whether there ever was.
    """

    step_seconds: float
    generations: int
    idle_seconds: float
    used: bool


class EngineServer:
    """Serves one engine on one listening socket, until the process is killed or asked to retire.

    `on_pulse` is called every second, and when the last generation has gone; `on_retire` with the answer to `retire`.
    """

    def __init__(
        self,
        engine: Engine,
        listener: socket.socket,
        *,
        flush_interval: float,
        on_pulse: Callable[[Pulse], None],
        on_retire: Callable[[bool], None] = lambda _retires: None,
        max_outbox: int = MAX_OUTBOX,
    ) -> None:
        self._engine = engine
        self._listener = listener
        self._flush_interval = flush_interval
        self._on_pulse = on_pulse
        self._on_retire = on_retire
        self._max_outbox = max_outbox
        self._step_began: float | None = None
        # A prompt alone announces the request that will bring it.
        self._requests: queue.SimpleQueue[tuple[_Generation, GenerateRequest] | list[int]] = queue.SimpleQueue()
        self._running: dict[int, _Generation] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_up = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._backlogged: deque[Connection] = deque()
        self._generations: dict[Connection, _Generation] = {}
        self._connections: set[Connection] = set()
        self._idle_since = time.monotonic()
        self._used = False
        self._next_pulse = 0.0
        self._asked_to_retire = False
        self._retires = False

    def retire(self) -> None:
        """End the process unless somebody generates: from any thread. Whoever has connected is served to the end."""
        self._asked_to_retire = True
        os.eventfd_write(self._wake_up, 1)

    def run(self) -> Never:
        """Decode for ever in this thread, with the IO thread beside it. If either fails, the process ends."""
        threading.excepthook = _end_process
        threading.Thread(target=self._serve_connections, name="io", daemon=True).start()
        while True:
            self._take_requests()
            if self._engine.is_prefilling:
                for generation in self._running.values():
                    generation.flush()
            self._step_began = time.monotonic()
            said = self._engine.step()
            self._step_began = None
            for key, message in said:
                self._pass_on(key, message)

    # The decode thread.

    def _take_requests(self) -> None:
        """Submit what has arrived, and wait for something where there is nothing to do."""
        while self._engine.is_idle or not self._requests.empty():
            arrived = self._requests.get()
            if isinstance(arrived, list):
                self._engine.prepare(arrived)
                continue
            generation, request = arrived
            try:
                self._engine.submit(generation.key, request)
            except RequestError as error:
                generation.take(Failed(error.code, str(error)))
                continue
            self._running[generation.key] = generation
            if generation.cancelled:  # before the engine knew of it
                self._engine.cancel(generation.key)

    def _pass_on(self, key: int, message: Message) -> None:
        generation = self._running[key]
        generation.take(message)
        if isinstance(message, Finished | Failed):
            del self._running[key]

    # The IO thread.

    def _serve_connections(self) -> Never:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_up, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if now >= self._next_pulse:
                self._next_pulse = now + _PULSE_INTERVAL
                self._on_pulse(self._pulse(now))
            for ready, events in self._selector.select(max(0.0, self._next_pulse - now)):
                if ready.fileobj is self._listener:
                    self._accept()
                elif ready.fileobj == self._wake_up:
                    os.eventfd_read(self._wake_up)
                    self._watch_backlogged()
                else:
                    self._attend(ready.data, events)
            if self._asked_to_retire:
                self._asked_to_retire = False
                self._retire()
            if self._retires and not self._connections:
                os._exit(0)

    def _pulse(self, now: float) -> Pulse:
        began = self._step_began
        step = now - began if began is not None else 0.0
        idle = 0.0 if self._generations else now - self._idle_since
        return Pulse(step, len(self._generations), idle, self._used)

    def _retire(self) -> None:
        """Take nobody on any more, but for those who have connected already: they must not lose anything."""
        if self._retires or self._generations:
            self._on_retire(self._retires)
            return
        self._retires = True
        Path(self._listener.getsockname()).unlink(missing_ok=True)
        while self._accept():
            pass
        self._selector.unregister(self._listener)
        self._listener.close()
        self._on_retire(True)

    def _accept(self) -> bool:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return False  # it changed its mind
        connection = Connection(peer, self._max_outbox, self._note_backlog)
        self._connections.add(connection)
        self._selector.register(peer, selectors.EVENT_READ, connection)
        return True

    def _note_backlog(self, connection: Connection) -> None:
        self._backlogged.append(connection)
        os.eventfd_write(self._wake_up, 1)

    def _watch_backlogged(self) -> None:
        while self._backlogged:
            connection = self._backlogged.popleft()
            if not connection.closed:
                self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    def _attend(self, connection: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            connection.flush()
            if not connection.has_backlog:
                self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
        if events & selectors.EVENT_READ:
            try:
                for message in connection.receive():
                    self._obey(connection, message)
            except (EOFError, WireError):
                self._hang_up(connection)

    def _obey(self, connection: Connection, message: dict[str, Any]) -> None:
        match message.get("op"):
            case "generate" if connection not in self._generations:
                self._generate(connection, message)
            case "prepare":
                self._prepare(connection, message.get("prompt"))
            case "cancel" if connection in self._generations:
                self._cancel(connection)
            case "info":
                connection.send({"type": "info", **self._engine.info(), "rss": memory.resident_bytes()})
            case operation:
                connection.send(_error(f"not possible here: {operation!r}"))

    def _generate(self, connection: Connection, message: dict[str, Any]) -> None:
        try:
            request = GenerateRequest.from_dict(message)
        except RequestError as error:
            connection.send(messages.to_dict(Failed(error.code, str(error))))
            return
        generation = _Generation(connection, self._flush_interval)
        self._generations[connection] = generation
        self._used = True
        self._requests.put((generation, request))

    def _prepare(self, connection: Connection, prompt: object) -> None:
        if isinstance(prompt, list) and all(type(token) is int and token >= 0 for token in prompt):
            self._requests.put(prompt)
        else:
            connection.send(_error("a prompt is a list of token ids"))

    def _cancel(self, connection: Connection) -> None:
        generation = self._generations[connection]
        generation.cancelled = True
        self._engine.cancel(generation.key)

    def _hang_up(self, connection: Connection) -> None:
        if connection in self._generations:
            self._cancel(connection)
            del self._generations[connection]
            if not self._generations:
                self._idle_since = time.monotonic()
                self._next_pulse = 0.0
        self._connections.discard(connection)
        self._selector.unregister(connection.socket)
        connection.close()


class _Generation:
    """What the decode thread has for one connection: tokens wait here to be sent together."""

    _keys = iter(range(2**63))

    def __init__(self, connection: Connection, flush_interval: float) -> None:
        self.key = next(self._keys)
        self.cancelled = False
        self._connection = connection
        self._flush_interval = flush_interval
        self._tokens: list[int] = []
        self._rows: list[int] = []
        self._texts: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._sent_at = 0.0
        self._reported_at = time.monotonic()

    def take(self, message: Message) -> None:
        """Send a message of the engine, or keep its tokens until the interval is over or the next message comes."""
        match message:
            case Tokens():
                self._collect(message)
                if time.monotonic() >= self._sent_at + self._flush_interval:
                    self.flush()
            case Progress():
                now = time.monotonic()
                if now >= self._reported_at + _PROGRESS_INTERVAL:
                    self._reported_at = now
                    self._send(message)
            case Finished():
                self._collect(message)
                text = "".join(self._texts)
                self._send(Finished(message.reason, self._tokens, self._rows, text, message.timings, self._logprobs))
            case _:
                self._send(message)

    def flush(self) -> None:
        """Send the tokens that are waiting."""
        if self._tokens:
            self._send(Tokens(self._tokens, self._rows, "".join(self._texts), self._logprobs))
            self._sent_at = time.monotonic()
            self._tokens, self._rows, self._texts, self._logprobs = [], [], [], []

    def _collect(self, message: Tokens | Finished) -> None:
        self._tokens += message.tokens
        self._rows += message.rows
        self._texts.append(message.text)
        self._logprobs += message.logprobs

    def _send(self, message: Message) -> None:
        self._connection.send(messages.to_dict(message))


def _end_process(failure: threading.ExceptHookArgs) -> None:
    """An engine that nobody can reach any more must not live on unnoticed."""
    assert failure.exc_value is not None
    _log.critical("a thread failed", exc_info=failure.exc_value)
    os._exit(1)


def _error(message: str) -> dict[str, Any]:
    return messages.to_dict(Failed("invalid_request", message))
