"""How models are at one moment, as a person who looks after them wants to know it."""

from typing import Any

from models_app import loading, verifying
from models_app.engines import registry
from models_app.models import FileState, LanguageModel

NOT_RUNNING = "No engine host answers: the service does not run, or is being restarted."
_UNREAD = "Its files look changed since they were last read: verify it, or its next task has them read."
_READING = "Its files are being read."

Known = dict[str, dict[str, Any]] | None


def rows(speeds: dict[str, float]) -> list[dict[str, Any]]:
    """Return every model as it is now.

    Args:
        speeds: tokens a second that a task of each model has seen, by id.

    Returns:
        Of each its ``id``, ``state`` (one of ``loading.STATES``), ``memory_bytes`` and ``tokens_per_second`` or
        ``None``, ``note``: why it cannot be used or what else is to be known, ``usable``, ``reading``: whether its
        files are being read, and ``checked_at``: when they last were, in Unix seconds.
    """
    known = loading.states()
    return [_row(model, known, speeds) for model in LanguageModel.objects.all()]


def why_unusable(model: LanguageModel, known: Known) -> str | None:
    """Say why a task of `model` could not be run now and what to do; ``None`` where it could, as far as is known.

    No file is read for this: what looks changed is read when it is loaded.
    """
    if why := registry.why_unavailable(model.engine):
        return why
    if model.stamps_now() is None:
        return str(verifying.missing(model))
    try:
        verifying.require_ready(model)
    except verifying.ModelUnusable as refusal:
        return f"{refusal} Verify has them read again."
    return NOT_RUNNING if known is None else None


def _row(model: LanguageModel, known: Known, speeds: dict[str, float]) -> dict[str, Any]:
    why, (state, memory) = why_unusable(model, known), loading.state_of(model, known)
    reading = verifying.is_being_read(model)
    if why and model.file_state == FileState.READY:
        state = str(FileState.MISSING) if model.stamps_now() is None else loading.UNAVAILABLE
    note = why or ("" if verifying.is_unchanged(model) else _UNREAD)
    speed = speeds.get(model.id)
    return {
        "id": model.id,
        "state": state,
        "memory_bytes": memory,
        "tokens_per_second": None if speed is None else round(speed, 1),
        "note": _READING if reading else note,
        "usable": why is None,
        "reading": reading,
        "checked_at": model.checked_at.timestamp() if model.checked_at else None,
    }
