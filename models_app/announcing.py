"""Telling an engine of a prompt while its task is still being stored, so that both go on at the same time.

The engine reads the first chunk meanwhile. Nothing depends on it: a prompt that was not announced, or whose task was
not stored after all, costs a chunk and changes no bit.
"""

import threading
import time
from collections.abc import Sequence

from models_app import catalog, loading
from models_app.engines.base import EngineAddress
from models_app.engines.client import EngineUnavailable, announce
from models_app.models import LanguageModel

# To ask the engine host costs as much as half of what is won.
_REMEMBERED_SECONDS = 10.0

_lock = threading.Lock()
_addresses: dict[str, tuple[float, EngineAddress | None]] = {}


def prompt(model: LanguageModel, tokens: Sequence[int]) -> None:
    """Announce a prompt to the engine of `model`, if that is in memory."""
    spec = catalog.engine_spec(model)
    # A beginning is kept where it is announced, or nowhere; a shorter prompt has none.
    if not spec.prefix_bytes:
        return
    try:
        if address := _address(spec.key):
            announce(address, tokens)
    except EngineUnavailable:
        with _lock:
            _addresses.pop(spec.key, None)


def _address(key: str) -> EngineAddress | None:
    now = time.monotonic()
    with _lock:
        asked_at, address = _addresses.get(key, (-_REMEMBERED_SECONDS, None))
    if now - asked_at >= _REMEMBERED_SECONDS:
        address = loading.host().find(key)
        with _lock:
            _addresses[key] = (now, address)
    return address
