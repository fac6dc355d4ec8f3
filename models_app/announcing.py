"""Telling an engine of a prompt while its task is still being stored, so that both go on at the same time.

The engine reads a chunk meanwhile. Nothing depends on it: a prompt that was not announced, or whose task was not stored
after all, costs a chunk and changes no bit.
"""

import threading
import time
from collections.abc import Sequence

from models_app import catalog, loading
from models_app.engines.base import EngineAddress
from models_app.engines.client import EngineUnavailable, announce
from models_app.models import LanguageModel

# To ask the engine host costs a tenth of what is won.
_REMEMBERED_SECONDS = 10.0
# Where host or engine hang, their callers must not.
_PATIENCE_SECONDS = 0.05

_lock = threading.Lock()
_addresses: dict[str, tuple[float, EngineAddress | None]] = {}


def prompt(model: LanguageModel, tokens: Sequence[int]) -> None:
    """Announce a prompt to the engine of `model`, if that is in memory."""
    spec = catalog.engine_spec(model)
    try:
        if address := _address(spec.key):
            announce(address, tokens, _PATIENCE_SECONDS)
    except EngineUnavailable:
        _remember(spec.key, None)


def _address(key: str) -> EngineAddress | None:
    with _lock:
        asked_at, address = _addresses.get(key, (-_REMEMBERED_SECONDS, None))
    if time.monotonic() - asked_at >= _REMEMBERED_SECONDS:
        address = loading.host().find(key, _PATIENCE_SECONDS)
        _remember(key, address)
    return address


def _remember(key: str, address: EngineAddress | None) -> None:
    with _lock:
        _addresses[key] = (time.monotonic(), address)
