"""Which engines there are. Nothing of an engine is imported before a model needs it."""

import importlib
from collections.abc import Callable

from models_app.engines.base import Engine, EngineLoader, LoadError, ModelSpec

_MODULES = {
    "llamacpp": "models_app.engines.llamacpp_context",
}
"""The module of each engine; its function `load` is an `EngineLoader`."""


def load_engine(spec: ModelSpec, on_progress: Callable[[float], None]) -> Engine:
    """Load a model with the engine it names; `LoadError` where that fails."""
    module = _MODULES.get(spec.engine)
    if module is None:
        raise LoadError(f"there is no engine named {spec.engine!r}", "unknown_engine")
    load: EngineLoader = importlib.import_module(module).load
    return load(spec, on_progress)
