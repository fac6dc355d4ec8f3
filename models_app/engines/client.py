"""What a worker calls: have a model loaded, and have it generate. Synchronous; nothing here waits unasked."""

import math
import select
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from models_app.engines import estimate, messages, wire
from models_app.engines.base import EngineAddress, GenerateRequest, ModelSpec
from models_app.engines.loading_rules import LoadingRules
from models_app.engines.messages import Failed, Finished, Message

_WAIT = 0.02
"""Seconds after which a waiting caller is called back."""

_PATIENCE = 5.0
"""Seconds within which a living host or engine takes a connection or a request."""


class EngineError(Exception):
    """An engine could not do what was asked."""


class EngineUnavailable(EngineError):
    """Nobody listens: the host or the engine is down or about to be started. Worth another try."""


class EngineDied(EngineError):
    """The engine's process ended in the middle of a generation. A new one can resume it."""


class ModelLoadFailed(EngineError):
    """The model cannot be loaded."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class GenerationFailed(EngineError):
    """The engine lives, but cannot generate this."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _ignore_progress(_progress: float | None) -> None:
    pass


def _ignore_reason(_reason: str) -> None:
    pass


def _load_message(spec: ModelSpec, rules: LoadingRules | None, *, insist: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"op": "load", "spec": spec.to_dict(), "needed": estimate.needed_bytes(spec)}
    if rules is not None:
        message["rules"] = rules.to_dict()
    return message | {"insist": insist}


class HostClient:
    """The engine host of the service that runs in `run_dir`. Every call opens a connection of its own."""

    def __init__(self, run_dir: str | Path) -> None:
        self._address = wire.socket_address(run_dir, wire.HOST_SOCKET)

    def ensure_loaded(
        self,
        spec: ModelSpec,
        *,
        while_waiting: Callable[[float | None], None] = _ignore_progress,
        on_wait: Callable[[str], None] = _ignore_reason,
        rules: LoadingRules | None = None,
        insist: bool = False,
    ) -> EngineAddress:
        """Return the engine of `spec.key`, loaded now if it was not.

        `while_waiting` gets the progress (0 to 1, `None` as long as it is unknown) at least every 20 ms and may
        raise to give up waiting; a model that loads goes on loading. `on_wait` gets the reason, as often, while there
        is no room for the model. `insist` tries a model, too, that has crashed again and again. Raises
        `EngineUnavailable` or `ModelLoadFailed`.
        """
        progress: float | None = None
        reason = ""
        with self._open() as channel:
            channel.send(_load_message(spec, rules, insist=insist))
            while True:
                reply = channel.receive(_WAIT)
                if reply is None:
                    pass
                elif reply["type"] == "ready":
                    return _address_of(reply)
                elif reply["type"] == "error":
                    raise ModelLoadFailed(reply["code"], reply["message"])
                elif reply["type"] == "waiting":
                    reason = reply["reason"]
                else:
                    progress, reason = reply["progress"], ""
                if reason:
                    on_wait(reason)
                else:
                    while_waiting(progress)

    def begin_loading(self, spec: ModelSpec, rules: LoadingRules, *, insist: bool = False) -> None:
        """Have a model loaded without waiting for it, if there is room now.

        Raises `EngineUnavailable` or `ModelLoadFailed`.
        """
        with self._open() as channel:
            channel.send(_load_message(spec, rules, insist=insist))
            reply = channel.receive(_PATIENCE)
        if reply is not None and reply["type"] == "error":
            raise ModelLoadFailed(reply["code"], reply["message"])
        if reply is not None and reply["type"] == "waiting":
            raise ModelLoadFailed("no_room", reply["reason"])

    def govern(self, rules: LoadingRules, timeout: float = _PATIENCE) -> int:
        """Have the host go by these rules from now on; return its process id. Raises `EngineUnavailable`."""
        return int(self._ask({"op": "govern", "rules": rules.to_dict()}, timeout)["pid"])

    def find(self, key: str, timeout: float = _PATIENCE) -> EngineAddress | None:
        """Return the engine of `key` if it is in memory now."""
        models = self.list(timeout)
        return next((_address_of(model) for model in models if model["key"] == key and model["state"] == "ready"), None)

    def list(self, timeout: float = _PATIENCE) -> list[dict[str, Any]]:
        """What is in memory: for each model its `key`, its `state`, and what belongs to that.

        `waiting` for room has a `reason`, `loading` its `progress`, and `ready` its address and
        `idle_seconds`, which is `None` while it is in use or about to be.
        """
        models: list[dict[str, Any]] = self.describe(timeout)["models"]
        return models

    def describe(self, timeout: float = _PATIENCE) -> dict[str, Any]:
        """What the host knows: `models` (see `list`), `starts` and `deaths` since it runs by key, and its `pid`.

        Deaths are engines that ended unasked. Raises `EngineUnavailable`, after at most twice `timeout` seconds.
        """
        return self._ask({"op": "list"}, timeout)

    def unload(self, key: str) -> bool:
        """End the engine of `key`, with whatever it is generating. Returns whether there was one."""
        return bool(self._ask({"op": "unload", "key": key})["unloaded"])

    def ping(self, timeout: float = _PATIENCE) -> int:
        """Return the host's process id, or raise `EngineUnavailable` after `timeout` seconds without an answer."""
        return int(self._ask({"op": "ping"}, timeout)["pid"])

    def _ask(self, request: dict[str, Any], timeout: float = _PATIENCE) -> dict[str, Any]:
        with self._open(timeout) as channel:
            channel.send(request)
            reply = channel.receive(timeout)
        if reply is None:
            raise EngineUnavailable("the engine host does not answer")
        return reply

    @contextmanager
    def _open(self, patience: float = _PATIENCE) -> Iterator["_Channel"]:
        try:
            with _Channel(self._address, patience) as channel:
                yield channel
        except (OSError, EOFError) as error:
            raise EngineUnavailable(f"the engine host is not there: {error}") from error


def engine_info(address: EngineAddress) -> dict[str, Any]:
    """What the engine says about itself: fingerprint, slots, busy slots, tokens generated, bytes of memory."""
    try:
        with _Channel(address.socket) as channel:
            channel.send({"op": "info"})
            reply = channel.receive(_PATIENCE)
    except (OSError, EOFError) as error:
        raise EngineUnavailable(f"the engine is not there: {error}") from error
    if reply is None:
        raise EngineUnavailable("the engine does not answer")
    return reply


def announce(address: EngineAddress, prompt: Sequence[int], timeout: float = _PATIENCE) -> None:
    """Tell an engine of a prompt whose request is about to come. Raises `EngineUnavailable`."""
    try:
        with _Channel(address.socket, timeout) as channel:
            channel.send({"op": "prepare", "prompt": prompt})
    except OSError as error:
        raise EngineUnavailable(f"the engine is not there: {error}") from error


class Generation:
    """One running generation. Closing it, by whatever way the process ends, cancels it in the engine.

    `next` and `drain` raise `EngineDied` when the engine ends in the middle and `GenerationFailed` when it refuses
    or breaks off the request, but first hand out everything that arrived before. Raises `EngineUnavailable`.
    """

    def __init__(self, address: EngineAddress, request: GenerateRequest) -> None:
        self.finished: Finished | None = None
        """The last message, once it was handed out."""

        self._error: EngineError | None = None
        try:
            self._channel = _Channel(address.socket)
        except OSError as error:
            raise EngineUnavailable(f"the engine is not there: {error}") from error
        try:
            self._channel.send({"op": "generate", **request.to_dict()})
        except OSError as error:
            self._channel.close()
            raise EngineUnavailable(f"the engine went away: {error}") from error

    def wake_on(self, descriptor: int) -> None:
        """Have `next` return at once, too, when there is something to read from `descriptor`."""
        self._channel.wake_on(descriptor)

    def next(self, timeout: float) -> Message | None:
        """Wait up to `timeout` seconds for the next message; `None` when none came, and after the last one."""
        if self._error is not None:
            raise self._error
        if self.finished is not None:
            return None
        try:
            data = self._channel.receive(timeout)
        except (OSError, EOFError) as error:
            self._error = EngineDied("the engine ended in the middle of a generation")
            raise self._error from error
        if data is None:
            return None
        message = messages.from_dict(data)
        if isinstance(message, Failed):
            self._error = GenerationFailed(message.code, message.message)
            raise self._error
        if isinstance(message, Finished):
            self.finished = message
        return message

    def drain(self) -> list[Message]:
        """Return every message that has arrived, without waiting. No message is handed out twice."""
        taken: list[Message] = []
        try:
            while (message := self.next(0)) is not None:
                taken.append(message)
        except EngineError:
            if not taken:
                raise  # otherwise the next call raises it: what came before must not be lost
        return taken

    def cancel(self) -> None:
        """Ask the engine to stop; the last message is then `Finished("cancelled", ...)` if it had not finished."""
        try:
            self._channel.send({"op": "cancel"})
        except OSError:
            return  # it is gone; the next call of `next` finds that out, after what it had sent

    def close(self) -> None:
        """Hang up: the engine gives the sequence up and frees its slot."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Channel:
    """A connection on which the caller decides how long to wait. `OSError` and `EOFError` mean that it broke."""

    def __init__(self, address: str, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._socket = wire.connect(address, patience)
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._decoder = wire.LineDecoder()
        self._received: deque[dict[str, Any]] = deque()

    def send(self, message: dict[str, Any]) -> None:
        self._socket.settimeout(self._patience)
        self._socket.sendall(wire.encode(message))

    def wake_on(self, descriptor: int) -> None:
        self._readable.register(descriptor, select.POLLIN)

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """Return the next message, or `None` if it is not complete within `timeout` seconds, or before a wake-up."""
        deadline = time.monotonic() + timeout
        while not self._received:
            remaining = max(0.0, deadline - time.monotonic())
            ready = self._readable.poll(math.ceil(remaining * 1000))
            if all(descriptor != self._socket.fileno() for descriptor, _ in ready):
                return None
            data = self._socket.recv(65536)
            if not data:
                raise EOFError("the other side hung up")
            self._received.extend(self._decoder.feed(data))
        return self._received.popleft()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _address_of(model: dict[str, Any]) -> EngineAddress:
    return EngineAddress(**{name: model[name] for name in EngineAddress.__dataclass_fields__})
