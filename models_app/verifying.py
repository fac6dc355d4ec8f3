"""Whether a model's files are still what was registered: asked cheaply at every load, and by reading them in doubt."""

import fcntl
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from lmsp_site import file_lock
from lmsp_site.errors import Unavailable
from models_app import digests
from models_app.digests import Stamp
from models_app.engines.client import EngineError, HostClient
from models_app.models import FileState, LanguageModel

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.02
_TELL_SECONDS = 0.05

OnProgress = Callable[[float], None]
"""Told which part, 0 to 1, of the files has been read; may raise to give up."""


class ModelUnusable(Unavailable):
    """The model's files are missing, or not what was registered. Nothing is decoded with them."""


def ignore(_part: float) -> None:
    """Tell nobody how far it is."""


def is_unchanged(model: LanguageModel) -> bool:
    """Tell whether the files look as they did when they were found to be what was registered. Costs a stat of each."""
    return model.file_state == FileState.READY and bool(model.stamps) and model.stamps_now() == model.stamps


def require_intact(model: LanguageModel, on_progress: OnProgress = ignore) -> None:
    """Return where the files are what was registered; read them only where they look otherwise than they did.

    Args:
        model: as it was read from the database; brought up to date where its state has changed.
        on_progress: called while files are read, or while another process reads them.

    Raises:
        ModelUnusable: they are not (``model_digest_mismatch``), or one is missing (``model_file_missing``).
    """
    if not is_unchanged(model):
        verify(model, on_progress)
    require_ready(model)


def verify(model: LanguageModel, on_progress: OnProgress = ignore, *, anew: bool = False) -> FileState:
    """Compare a model's files with what was registered, and store what came of it in its row.

    Args:
        model: brought up to date.
        on_progress: as for ``require_intact``.
        anew: read the files also where they look as they did.
    """
    with _alone(model, on_progress):
        # Whoever was here before has perhaps done it.
        model.refresh_from_db()
        stamps = model.stamps_now()
        known = not anew and stamps == model.stamps and model.file_state != FileState.MISSING
        if known and stamps:
            return FileState(model.file_state)
        _store(model, *_compare(model, stamps, on_progress))
    return FileState(model.file_state)


def require_ready(model: LanguageModel) -> None:
    """Refuse a model whose files were not what was registered when they were last read.

    Raises:
        ModelUnusable: ``model_digest_mismatch``, or ``model_file_missing``.
    """
    if model.file_state == FileState.MISSING:
        raise missing(model)
    if model.file_state == FileState.CORRUPT:
        raise ModelUnusable(
            f"The files of the model {model.id!r} are not what was registered: their digest differs. "
            "Put them back, or register them again with add_model.",
            code="model_digest_mismatch",
            retry_after=30,
        )


def missing(model: LanguageModel) -> ModelUnusable:
    """Return what is said of a model whose file is not there."""
    return ModelUnusable(
        f"A file of the model {model.id!r} is missing from the models directory. "
        "Put it back, or register it again with add_model.",
        code="model_file_missing",
        retry_after=30,
    )


def _compare(
    model: LanguageModel, stamps: list[Stamp] | None, on_progress: OnProgress
) -> tuple[FileState, list[Stamp] | None]:
    """Return what the files are, and how they looked while they were that."""
    if stamps is None:
        return FileState.MISSING, None
    if any(stamp[0] != entry["size"] for stamp, entry in zip(stamps, model.files, strict=True)):
        return FileState.CORRUPT, stamps
    total = sum(entry["size"] for entry in model.files) or 1
    read, told = 0, 0.0

    def on_bytes(count: int) -> None:
        nonlocal read, told
        read += count
        if time.monotonic() - told > _TELL_SECONDS:
            on_progress(read / total)
            told = time.monotonic()

    for path, entry in zip(model.paths, model.files, strict=True):
        try:
            found = digests.of_file(path, on_bytes)
        except OSError:
            logger.exception("a model's file cannot be read", extra={"model": model.id, "file": entry["name"]})
            return FileState.MISSING, None
        if found != entry["sha256"]:
            return FileState.CORRUPT, stamps
    # Written to meanwhile: nobody knows what was read.
    return (FileState.READY, stamps) if model.stamps_now() == stamps else (FileState.CORRUPT, None)


def _store(model: LanguageModel, state: FileState, stamps: list[Stamp] | None) -> None:
    before, inodes = model.file_state, [stamp[2] for stamp in model.stamps]
    model.file_state, model.stamps, model.checked_at = state, stamps or [], timezone.now()
    try:
        model.save(update_fields=["file_state", "stamps", "checked_at"])
    except DatabaseError:
        # What was found holds all the same; the next who looks reads the files again.
        logger.exception("the state of a model's files cannot be stored", extra={"model": model.id})
    if state != before:
        told = logger.info if state == FileState.READY else logger.error
        told("a model's files have changed", extra={"model": model.id, "was": before, "now": state.value})
    if state == FileState.CORRUPT and (not inodes or inodes == [stamp[2] for stamp in stamps or ()]):
        # The very files that an engine has mapped were written to: it would go on with a mixture of both.
        with suppress(EngineError):
            HostClient(settings.LMSP.run_dir).unload(model.engine_key)


def is_being_read(model: LanguageModel) -> bool:
    """Tell whether some process reads the model's files at this moment."""
    try:
        return file_lock.is_held(_lock(model))
    except FileNotFoundError:
        return False


def _lock(model: LanguageModel) -> Path:
    name = hashlib.sha256(model.id.encode()).hexdigest()[:16]
    return Path(settings.LMSP.run_dir) / f"verify-{name}.lock"


@contextmanager
def _alone(model: LanguageModel, on_progress: OnProgress) -> Iterator[None]:
    """See that one process at a time reads a model's files; whoever waits shows that he lives."""
    with _lock(model).open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                on_progress(0.0)
                time.sleep(_LOOK_SECONDS)
        yield
