"""What is set about loading, and telling the engine host; what people have it do is written down."""

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.conf import settings

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor
from lmsp_site.errors import NotFound
from lmsp_site.models import ServiceConfig
from models_app import catalog, verifying
from models_app.engines import memory
from models_app.engines.base import EngineAddress
from models_app.engines.client import EngineUnavailable, HostClient, ModelLoadFailed
from models_app.engines.loading_rules import FOR_EVER, LoadingRules
from models_app.models import FileState, LanguageModel

logger = logging.getLogger(__name__)

_HOST_PATIENCE_SECONDS = 1.0

UNLOADED = "unloaded"
UNAVAILABLE = "unavailable"
STATES = (UNLOADED, "waiting", "loading", "ready", UNAVAILABLE, "corrupt", "missing")
"""What a model can be: the middle three are the engine host's words, the last two are about its files."""


def host() -> HostClient:
    """Return the engine host of this service."""
    return HostClient(settings.LMSP.run_dir)


def rules() -> LoadingRules:
    """Return the rules that are in force."""
    config = ServiceConfig.current()
    own = _own_keep_alive(config.keep_alive)
    return LoadingRules(float(config.keep_alive), config.max_loaded, config.engine_memory_mb << 20, own)


def _own_keep_alive(of_all: int) -> dict[str, float]:
    """Return the keys of engines that are kept for another time than all, with that time.

    Models of one content share an engine, which is kept for the longest that any of them asks for.
    """
    asked = defaultdict(list)
    for model in LanguageModel.objects.only("digest", "max_context_length", "keep_alive"):
        asked[model.engine_key].append(float(of_all if model.keep_alive is None else model.keep_alive))
    longest = {key: FOR_EVER if FOR_EVER in times else max(times) for key, times in asked.items()}
    return {key: time for key, time in longest.items() if time != of_all}


def load(
    model: LanguageModel,
    actor: Actor,
    *,
    while_loading: Callable[[float | None], None] = lambda _progress: None,
    while_waiting: Callable[[str], None] = lambda _reason: None,
) -> EngineAddress:
    """Load `model` for `actor`, even if it has crashed before, and write down who has.

    Raises:
        EngineUnavailable: the service does not run.
        ModelLoadFailed: it cannot be loaded.
    """
    try:
        verifying.require_intact(model)
    except verifying.ModelUnusable as error:
        raise ModelLoadFailed(str(error.code), error.message) from error
    spec = catalog.engine_spec(model)
    address = host().ensure_loaded(spec, while_waiting=while_loading, on_wait=while_waiting, rules=rules(), insist=True)
    audit_log.record(actor, Action.CHANGED, model, done="loaded")
    return address


def begin(model: LanguageModel, actor: Actor) -> None:
    """Have `model` loaded for `actor` without waiting for it, and write down who has.

    Raises:
        EngineUnavailable: the service does not run.
        ModelLoadFailed: it was refused at once.
    """
    _require_unchanged(model)
    host().begin_loading(catalog.engine_spec(model), rules(), insist=True)
    audit_log.record(actor, Action.CHANGED, model, done="loaded")


def unload(model: LanguageModel, actor: Actor) -> bool:
    """End the engine of `model`, with whatever it generates, and write down who has; return whether there was one.

    Raises:
        EngineUnavailable: the service does not run.
    """
    unloaded = host().unload(catalog.engine_spec(model).key)
    if unloaded:
        audit_log.record(actor, Action.CHANGED, model, done="unloaded")
    return unloaded


def states() -> dict[str, dict[str, Any]] | None:
    """Return what the engine host knows of each model that it has, by key; ``None`` where there is no host."""
    try:
        return {model["key"]: model for model in host().list()}
    except EngineUnavailable:
        return None


def state_of(model: LanguageModel, known: dict[str, dict[str, Any]] | None) -> tuple[str, int | None]:
    """Return the state of `model`, and the bytes of memory that its engine occupies where it has one."""
    if model.file_state != FileState.READY:
        return str(model.file_state), None
    if known is None:
        return UNAVAILABLE, None
    found = known.get(catalog.engine_spec(model).key)
    if found is None:
        return UNLOADED, None
    try:
        return str(found["state"]), memory.resident_bytes(found["pid"]) if "pid" in found else None
    except OSError:
        return UNLOADED, None  # It has ended since.


def _require_unchanged(model: LanguageModel) -> None:
    """Refuse to load what nobody has read since it changed, where nobody can wait until it is read."""
    if not verifying.is_unchanged(model):
        raise ModelLoadFailed("model_unverified", "its files look changed; verify_models, or its next task, reads them")


class Attendant:
    """Keeps the engine host to the rules, also one that was started anew, and has it load what is to be preloaded."""

    def __init__(self) -> None:
        self._preloaded_by = 0

    def tend(self) -> None:
        """Tell the host the rules as they are now; one that is not there is told the next time."""
        config, now = ServiceConfig.current(), rules()
        try:
            pid = host().govern(now, _HOST_PATIENCE_SECONDS)
            if pid != self._preloaded_by:
                self._preloaded_by = pid
                for model_id in config.preload.split():
                    self._preload(model_id, now)
        except EngineUnavailable:
            return

    def _preload(self, model_id: str, now: LoadingRules) -> None:
        try:
            model = catalog.find(model_id)
            _require_unchanged(model)
            host().begin_loading(catalog.engine_spec(model), now)
        except (NotFound, ModelLoadFailed) as error:
            logger.warning("not preloaded", extra={"model": model_id, "reason": str(error)})
