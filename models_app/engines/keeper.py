"""The engines of one host: which are in memory, which are to be loaded, and which have to go.

Whoever asks for a model is told when it is ready, how its loading goes, and why it has to wait. One newcomer at a time
is considered, first come first served, so that a large model is not passed over for ever by small ones.
"""

import hashlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from models_app.engines import machine_memory, room, wire
from models_app.engines.base import ModelSpec
from models_app.engines.crashes import CrashRecord
from models_app.engines.engine_child import EngineChild
from models_app.engines.loading_rules import FOR_EVER, LoadingRules

_log = logging.getLogger(__name__)

_LONGEST_SILENCE = 10.0
"""Seconds without a word after which an engine that has loaded is taken to hang; it speaks every second."""

_LONGEST_STEP = 180.0
"""Seconds after which a decode, or a chunk of a prefill, is taken never to end: far above what a large model takes."""

Tell = Callable[[dict[str, Any]], None]


class Caller(Protocol):
    """Somebody who waits for an engine."""

    def send(self, message: dict[str, Any]) -> None:
        """Tell them."""


class Watcher(Protocol):
    """What calls back when a descriptor can be read."""

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Begin."""

    def unwatch(self, descriptor: int) -> None:
        """End."""


class _Newcomer:
    """A model that waits for room."""

    def __init__(self, spec: ModelSpec, needed: int) -> None:
        self.spec = spec
        self.needed = needed
        self.reason = ""


class EngineKeeper:
    """Starts engines, lets go of idle ones by the rules, and forgets those that end."""

    def __init__(self, run_dir: Path, watcher: Watcher) -> None:
        self._run_dir = run_dir
        self._watcher = watcher
        self._rules = LoadingRules()
        self._engines: dict[str, EngineChild] = {}
        self._children: set[EngineChild] = set()
        """The engines, and those that were asked to end and still live."""

        self._newcomers: dict[str, _Newcomer] = {}
        self._waiting: defaultdict[str, list[Caller]] = defaultdict(list)
        self._crashes = CrashRecord()
        self._started = 0
        self._starts: Counter[str] = Counter()
        self._deaths: Counter[str] = Counter()
        """By the key of their model: engines that were started, and that ended unasked."""

    @property
    def is_empty(self) -> bool:
        """Whether no process of an engine lives."""
        return not self._children

    def describe(self) -> dict[str, Any]:
        """What is in memory or on its way there, and what has been counted."""
        models = [_describe(engine) for engine in self._engines.values()]
        models += [
            {"key": key, "state": "waiting", "progress": 0.0, "reason": newcomer.reason}
            for key, newcomer in self._newcomers.items()
        ]
        return {"models": models, "starts": self._starts, "deaths": self._deaths}

    def govern(self, rules: LoadingRules) -> None:
        """Go by these rules from now on."""
        if rules != self._rules:
            self._rules = rules
            self.look()

    def load(self, spec: ModelSpec, needed: int, caller: Caller, *, insist: bool) -> None:
        """Have the model loaded and tell the caller; `insist` forgets that it has crashed."""
        engine = self._engines.get(spec.key)
        if engine is not None and engine.address is not None:
            engine.note_interest()
            caller.send({"type": "ready", **engine.address})
            return
        if insist:
            self._crashes.forget(spec.key)
        if engine is None and (objection := self._crashes.objection(spec.key, spec.path)):
            caller.send({"type": "error", "code": "engine_crashed", "message": objection})
            return
        self._waiting[spec.key].append(caller)
        if engine is None:
            self._newcomers.setdefault(spec.key, _Newcomer(spec, needed))
            self._admit()
            engine = self._engines.get(spec.key)
        if engine is not None:
            caller.send({"type": "loading", "progress": engine.progress})
        elif spec.key in self._newcomers:
            caller.send({"type": "waiting", "reason": self._newcomers[spec.key].reason})

    def leave(self, caller: Caller) -> None:
        """Forget a caller; a model that only they wanted and that waits for room is not wanted any more."""
        for key, callers in self._waiting.items():
            if caller in callers:
                callers.remove(caller)
                if not callers:
                    self._newcomers.pop(key, None)

    def unload(self, key: str, tell: Tell) -> None:
        """End an engine, with whatever it generates, and answer when its memory is free."""
        newcomer = self._newcomers.pop(key, None)
        engine = self._engines.pop(key, None)
        self._tell_waiting(key, {"type": "error", "code": "unloaded", "message": "the model was unloaded"})
        if engine is None:
            tell({"type": "unloaded", "unloaded": newcomer is not None})
            return
        engine.asked_to_end.append(partial(tell, {"type": "unloaded", "unloaded": True}))
        engine.terminate()

    def look(self) -> None:
        """Do what time has made due: let idle engines go, take newcomers in, end what hangs."""
        self._end_hung()
        for engine in list(self._engines.values()):
            idle, kept = engine.idle_seconds, self._rules.keep_alive_of(engine.spec.key)
            if kept != FOR_EVER and idle is not None and idle >= kept:
                self._retire(engine, "idle")
        self._admit()

    def close(self) -> None:
        """Ask every engine to end, and let nobody in any more."""
        self._newcomers.clear()
        for child in self._children:
            child.terminate()

    def kill(self) -> None:
        """Make every engine end."""
        for child in self._children:
            child.kill()

    # Coming.

    def _admit(self) -> None:
        """Start newcomers in their order, as far as there is room."""
        while self._newcomers:
            key, newcomer = next(iter(self._newcomers.items()))
            occupants = [child.occupant() for child in self._children]
            match room.decide(newcomer.needed, occupants, self._rules, machine_memory.available_bytes()):
                case room.Start():
                    del self._newcomers[key]
                    self._start(newcomer)
                case room.Unload(victim):
                    self._retire(self._engines[victim], "room for another")
                    self._keep_waiting(newcomer, "Another model is unloaded to make room.")
                    break
                case room.Wait(reason):
                    self._keep_waiting(newcomer, reason)
                    break
                case room.Refuse(code, message):
                    del self._newcomers[key]
                    _log.warning("model not loaded", extra={"model": key, "code": code, "reason": message})
                    self._tell_waiting(key, {"type": "error", "code": code, "message": message})
        for newcomer in list(self._newcomers.values())[1:]:
            self._keep_waiting(newcomer, "Other models wait for room before it.")

    def _keep_waiting(self, newcomer: _Newcomer, reason: str) -> None:
        if newcomer.reason != reason:
            newcomer.reason = reason
            for caller in self._waiting[newcomer.spec.key]:
                caller.send({"type": "waiting", "reason": reason})

    def _start(self, newcomer: _Newcomer) -> None:
        spec = newcomer.spec
        engine = EngineChild(spec, self._address_of(spec.key), newcomer.needed)
        self._started += 1
        self._starts[spec.key] += 1
        self._engines[spec.key] = engine
        self._children.add(engine)
        self._watcher.watch(engine.reports, partial(self._hear, engine))
        facts = {"pid": engine.pid, "model": spec.key, "needed_mb": newcomer.needed >> 20}
        _log.info("engine started", extra=facts)
        for caller in self._waiting[spec.key]:
            caller.send({"type": "loading", "progress": 0.0})

    def _address_of(self, key: str) -> str:
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return wire.socket_address(self._run_dir, f"model-{digest}-{self._started}.sock")

    def leftovers(self) -> Iterator[Path]:
        """The sockets of a host that was killed."""
        yield from Path(self._address_of("x")).parent.glob("model-*.sock")

    # Being there.

    def _hear(self, engine: EngineChild) -> None:
        """Pass on what an engine reports, and forget it when it has ended."""
        was_ready = engine.address is not None
        key = engine.spec.key
        if not engine.read_reports():
            self._forget(engine)
        elif self._engines.get(key) is not engine:
            pass  # it was asked to end and spoke before it heard
        elif engine.retires:
            del self._engines[key]
            if self._waiting[key]:  # they were told of no address yet, so that they cannot have come to it
                self._newcomers[key] = _Newcomer(engine.spec, engine.needed)
        elif was_ready:
            self.look()
        elif engine.address is not None:
            self._crashes.forget(key)
            self._tell_waiting(key, {"type": "ready", **engine.address})
        elif engine.error is None:
            for caller in self._waiting[key]:
                caller.send({"type": "loading", "progress": engine.progress})

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

    # Going.

    def _retire(self, engine: EngineChild, reason: str) -> None:
        if not engine.is_ending:
            _log.info("engine asked to retire", extra={"pid": engine.pid, "model": engine.spec.key, "why": reason})
            engine.retire()

    def _forget(self, engine: EngineChild) -> None:
        key = engine.spec.key
        self._watcher.unwatch(engine.reports)
        engine.reap()
        _log.info("engine ended", extra={"pid": engine.pid, "model": key, "status": engine.exit_status})
        self._children.remove(engine)
        if self._engines.get(key) is engine:
            del self._engines[key]
            self._deaths[key] += 1
            if engine.address is None and engine.error is None:
                self._crashes.note(key, engine.spec.path, engine.exit_status)
            self._tell_waiting(key, engine.end_error())
        for tell in engine.asked_to_end:
            tell()
        self._admit()

    def _tell_waiting(self, key: str, message: dict[str, Any]) -> None:
        for caller in self._waiting.pop(key, []):
            caller.send(message)


def _describe(engine: EngineChild) -> dict[str, Any]:
    if engine.address is None:
        return {"key": engine.spec.key, "state": "loading", "progress": engine.progress}
    return {"key": engine.spec.key, "state": "ready", "idle_seconds": engine.idle_seconds, **engine.address}
