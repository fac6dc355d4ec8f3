"""The engine host: `python -m models_app.engines.host --run-dir DIR`.

Starts one process for each model that is asked for, tells everybody who asked when it is ready, and forgets it when
it ends. One thread, no model, no numpy: it must be cheap to have and must not fall with an engine. Its engines fall
with it, by the kernel's hand, so that a host that was killed leaves none behind.
"""

import argparse
import hashlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from lmsp_site import logs
from models_app.engines import wire
from models_app.engines.base import LoadError, ModelSpec
from models_app.engines.connection import Connection
from models_app.engines.engine_child import EngineChild

_log = logging.getLogger(__name__)

_MAX_OUTBOX = 1024 * 1024
_GRACE = 1.0
"""Seconds that engines have to end when they are asked to."""

_LOOK_INTERVAL = 1.0
_LONGEST_SILENCE = 10.0
"""Seconds without a word after which an engine that has loaded is taken to hang; it speaks every second."""

_LONGEST_STEP = 180.0
"""Seconds after which a decode, or a chunk of a prefill, is taken never to end: far above what a large model takes."""


class Host:
    """The engines of one service, by the key of their model."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._address = wire.socket_address(run_dir, wire.HOST_SOCKET)
        self._engines: dict[str, EngineChild] = {}
        self._children: set[EngineChild] = set()
        """The engines, and those that were asked to end and still live."""

        self._waiting: defaultdict[str, list[Connection]] = defaultdict(list)
        self._started = 0
        self._starts: Counter[str] = Counter()
        self._deaths: Counter[str] = Counter()
        """By the key of their model: engines that were started, and that ended unasked."""

        self._stopping = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until SIGTERM."""
        self._remove_leftovers()
        with wire.listen(self._address) as listener:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener))
            self._watch_signals()
            while not self._stopping:
                self._attend(timeout=_LOOK_INTERVAL if self._children else None)
                self._end_hung()
        Path(self._address).unlink(missing_ok=True)
        self._end_children()

    def _attend(self, timeout: float | None) -> None:
        for ready, events in self._selector.select(timeout):
            ready.data(events)

    def _remove_leftovers(self) -> None:
        """Remove the sockets of a host that was killed."""
        for left in Path(self._engine_address("x")).parent.glob("model-*.sock"):
            left.unlink(missing_ok=True)

    def _watch_signals(self) -> None:
        woken, waker = self._signals = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)

        def stop(_signal: int, _frame: object) -> None:
            self._stopping = True

        signal.set_wakeup_fd(waker.fileno())
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
        self._selector.register(woken, selectors.EVENT_READ, lambda _events: woken.recv(4096))

    def _end_children(self) -> None:
        for child in self._children:
            child.terminate()
        deadline = time.monotonic() + _GRACE
        while self._children and (remaining := deadline - time.monotonic()) > 0:
            self._attend(remaining)
        for child in self._children:
            child.kill()

    # Connections.

    def _accept(self, listener: socket.socket, _events: int) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            return  # it changed its mind
        connection = Connection(peer, _MAX_OUTBOX, self._watch_for_room)
        self._selector.register(peer, selectors.EVENT_READ, partial(self._attend_to, connection))

    def _watch_for_room(self, connection: Connection) -> None:
        self._watch(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _watch(self, connection: Connection, events: int) -> None:
        self._selector.modify(connection.socket, events, partial(self._attend_to, connection))

    def _attend_to(self, connection: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            connection.flush()
            if not connection.has_backlog:
                self._watch(connection, selectors.EVENT_READ)
        if events & selectors.EVENT_READ:
            try:
                for message in connection.receive():
                    self._obey(connection, message)
            except (EOFError, wire.WireError):
                self._hang_up(connection)

    def _hang_up(self, connection: Connection) -> None:
        for waiting in self._waiting.values():
            if connection in waiting:
                waiting.remove(connection)
        self._selector.unregister(connection.socket)
        connection.close()

    def _obey(self, connection: Connection, message: dict[str, Any]) -> None:
        match message:
            case {"op": "load", "spec": dict(spec)}:
                self._load(connection, spec)
            case {"op": "unload", "key": str(key)}:
                self._unload(connection, key)
            case {"op": "list"}:
                models = [_describe(engine) for engine in self._engines.values()]
                counted = {"starts": self._starts, "deaths": self._deaths}
                connection.send({"type": "models", "models": models, **counted, "pid": os.getpid()})
            case {"op": "ping"}:
                connection.send({"type": "pong", "pid": os.getpid()})
            case _:
                connection.send({"type": "error", "code": "invalid_request", "message": "not understood"})

    # Engines.

    def _load(self, connection: Connection, description: dict[str, Any]) -> None:
        try:
            spec = ModelSpec.from_dict(description)
        except LoadError as error:
            connection.send({"type": "error", "code": error.code, "message": str(error)})
            return
        engine = self._engines.get(spec.key) or self._start(spec)
        if engine.address is not None:
            connection.send({"type": "ready", **engine.address})
            return
        self._waiting[spec.key].append(connection)
        connection.send({"type": "loading", "progress": engine.progress})

    def _start(self, spec: ModelSpec) -> EngineChild:
        engine = EngineChild(spec, self._engine_address(spec.key))
        self._started += 1
        self._starts[spec.key] += 1
        self._engines[spec.key] = engine
        self._children.add(engine)
        self._selector.register(engine.reports, selectors.EVENT_READ, partial(self._hear, engine))
        _log.info("engine started", extra={"pid": engine.pid, "model": spec.key})
        return engine

    def _engine_address(self, key: str) -> str:
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return wire.socket_address(self._run_dir, f"model-{digest}-{self._started}.sock")

    def _hear(self, engine: EngineChild, _events: int) -> None:
        """Pass on what an engine reports, and forget it when it has ended."""
        was_ready = engine.address is not None
        if not engine.read_reports():
            self._forget(engine)
        elif was_ready or self._engines.get(engine.spec.key) is not engine:
            pass  # it shows that it is alive, or was asked to end and spoke before it heard
        elif engine.address is not None:
            self._tell_waiting(engine, {"type": "ready", **engine.address})
        elif engine.error is None:
            for connection in self._waiting[engine.spec.key]:
                connection.send({"type": "loading", "progress": engine.progress})

    def _end_hung(self) -> None:
        """Kill engines that have loaded and do not work; whoever waited for one gets a new one and goes on."""
        now = time.monotonic()
        for engine in self._children:
            silence = now - engine.heard_at
            if engine.address and (silence > _LONGEST_SILENCE or engine.step_seconds > _LONGEST_STEP):
                facts = {"silence": round(silence, 1), "step": engine.step_seconds}
                _log.error("engine hangs and is killed", extra={"pid": engine.pid, "model": engine.spec.key, **facts})
                engine.heard_at, engine.step_seconds = now, 0.0
                engine.kill()

    def _forget(self, engine: EngineChild) -> None:
        self._selector.unregister(engine.reports)
        engine.reap()
        _log.info("engine ended", extra={"pid": engine.pid, "model": engine.spec.key, "status": engine.exit_status})
        self._children.remove(engine)
        if self._engines.get(engine.spec.key) is engine:
            del self._engines[engine.spec.key]
            self._deaths[engine.spec.key] += 1
            self._tell_waiting(engine, engine.end_error())
        for tell in engine.asked_to_end:
            tell()

    def _tell_waiting(self, engine: EngineChild, message: dict[str, Any]) -> None:
        for connection in self._waiting.pop(engine.spec.key, []):
            connection.send(message)

    def _unload(self, connection: Connection, key: str) -> None:
        """End an engine, and answer when its memory is free."""
        engine = self._engines.pop(key, None)
        if engine is None:
            connection.send({"type": "unloaded", "unloaded": False})
            return
        self._tell_waiting(engine, {"type": "error", "code": "unloaded", "message": "the model was unloaded"})
        engine.asked_to_end.append(partial(connection.send, {"type": "unloaded", "unloaded": True}))
        engine.terminate()


def _describe(engine: EngineChild) -> dict[str, Any]:
    if engine.address is None:
        return {"key": engine.spec.key, "state": "loading", "progress": engine.progress}
    return {"key": engine.spec.key, "state": "ready", **engine.address}


def _is_served(address: str) -> bool:
    try:
        wire.connect(address, timeout=1).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Run the host; exit status 1 if another one serves the same directory."""
    parser = argparse.ArgumentParser(prog="engine-host", description="Start and end engine processes.")
    parser.add_argument("--run-dir", required=True, type=Path, help="where the sockets are")
    run_dir: Path = parser.parse_args().run_dir
    logs.configure()
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_served(wire.socket_address(run_dir, wire.HOST_SOCKET)):
        sys.exit(f"an engine host serves {run_dir} already")
    Host(run_dir).run()


if __name__ == "__main__":
    main()
