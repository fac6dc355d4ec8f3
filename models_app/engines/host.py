"""The engine host: `python -m models_app.engines.host --run-dir DIR`.

Starts one process for each model that is asked for, tells everybody who asked when it is ready, and forgets it when
it ends. One thread, no model, no numpy: it must be cheap to have and must not fall with an engine. Its engines fall
with it, by the kernel's hand, so that a host that was killed leaves none behind.
"""

import argparse
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lmsp_site import logs
from models_app.engines import wire
from models_app.engines.base import LoadError, ModelSpec
from models_app.engines.connection import Connection
from models_app.engines.keeper import EngineKeeper
from models_app.engines.loading_rules import LoadingRules

_MAX_OUTBOX = 1024 * 1024
_GRACE = 1.0
"""Seconds that engines have to end when they are asked to."""

_LOOK_INTERVAL = 1.0


class Host:
    """Takes the connections of one service, and has the keeper do what they ask for."""

    def __init__(self, run_dir: Path) -> None:
        self._address = wire.socket_address(run_dir, wire.HOST_SOCKET)
        self._keeper = EngineKeeper(run_dir, self)
        self._stopping = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until SIGTERM."""
        for left in self._keeper.leftovers():
            left.unlink(missing_ok=True)
        with wire.listen(self._address) as listener:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener))
            self._watch_signals()
            while not self._stopping:
                self._attend(timeout=None if self._keeper.is_empty else _LOOK_INTERVAL)
                self._keeper.look()
        Path(self._address).unlink(missing_ok=True)
        self._end_engines()

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Call back whenever an engine has reported something."""
        self._selector.register(descriptor, selectors.EVENT_READ, lambda _events: on_readable())

    def unwatch(self, descriptor: int) -> None:
        """Call back no more."""
        self._selector.unregister(descriptor)

    def _attend(self, timeout: float | None) -> None:
        for ready, events in self._selector.select(timeout):
            ready.data(events)

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

    def _end_engines(self) -> None:
        self._keeper.close()
        deadline = time.monotonic() + _GRACE
        while not self._keeper.is_empty and (remaining := deadline - time.monotonic()) > 0:
            self._attend(remaining)
        self._keeper.kill()

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
        self._keeper.leave(connection)
        self._selector.unregister(connection.socket)
        connection.close()

    def _obey(self, connection: Connection, message: dict[str, Any]) -> None:
        match message:
            case {"op": "load", "spec": dict(spec)}:
                self._load(connection, spec, message)
            case {"op": "unload", "key": str(key)}:
                self._keeper.unload(key, connection.send)
            case {"op": "govern", "rules": dict(rules)}:
                self._govern(connection, rules)
            case {"op": "list"}:
                connection.send({"type": "models", **self._keeper.describe(), "pid": os.getpid()})
            case {"op": "ping"}:
                connection.send({"type": "pong", "pid": os.getpid()})
            case _:
                connection.send({"type": "error", "code": "invalid_request", "message": "not understood"})

    def _load(self, connection: Connection, description: dict[str, Any], message: dict[str, Any]) -> None:
        try:
            spec = ModelSpec.from_dict(description)
            if message.get("rules"):
                self._keeper.govern(LoadingRules.from_dict(message["rules"]))
            needed = int(message.get("needed", 0))
        except LoadError as error:
            connection.send({"type": "error", "code": error.code, "message": str(error)})
        except (TypeError, ValueError) as error:
            connection.send({"type": "error", "code": "invalid_request", "message": str(error)})
        else:
            self._keeper.load(spec, needed, connection, insist=bool(message.get("insist")))

    def _govern(self, connection: Connection, rules: dict[str, Any]) -> None:
        try:
            self._keeper.govern(LoadingRules.from_dict(rules))
        except ValueError as error:
            connection.send({"type": "error", "code": "invalid_request", "message": str(error)})
        else:
            connection.send({"type": "governed", "pid": os.getpid()})


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
