"""Which engines there are. Nothing of an engine is imported before a model needs it."""

import importlib
from collections.abc import Callable

from models_app.engines import exllamav2_presence
from models_app.engines.base import Engine, EngineLoader, LoadError, ModelSpec

_MODULES = {
    "llamacpp": "models_app.engines.llamacpp_context",
    "exllamav2": "models_app.engines.exllamav2",
}
"""The module of each engine; its function `load` is an `EngineLoader`."""

_PRESENCE: dict[str, Callable[[], str | None]] = {"exllamav2": exllamav2_presence.why_unavailable}
"""What tells, without importing it, why an engine cannot run here, of those that may not be there."""


def load_engine(spec: ModelSpec, on_progress: Callable[[float], None]) -> Engine:
    """Load a model with the engine it names; `LoadError` where that fails."""
    module = _MODULES.get(spec.engine)
    if module is None:
        raise LoadError(f"there is no engine named {spec.engine!r}", "unknown_engine")
    if why := why_unavailable(spec.engine):
        raise LoadError(why, "engine_unavailable")
    load: EngineLoader = importlib.import_module(module).load
    return load(spec, on_progress)


def why_unavailable(engine: str) -> str | None:
    """Say, for a person, why this machine cannot run an engine; ``None`` where it can, as far as files tell."""
    look = _PRESENCE.get(engine)
    return look() if look else None


def unavailable() -> dict[str, str]:
    """Return the engines that this machine cannot run, and why."""
    return {engine: why for engine in _MODULES if (why := why_unavailable(engine))}
