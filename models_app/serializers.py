"""The model object of the API."""

from typing import Any

from models_app.models import LanguageModel


def model_object(
    model: LanguageModel, state: str, memory_bytes: int | None, *, tokens_per_second: float | None
) -> dict[str, Any]:
    """Return the OpenAI model object with what LMSP adds: digest, size, format, context length, state.

    `memory_bytes` is what its engine's process has in memory, and `tokens_per_second` how fast a task's output came so
    far; `None` where there is no engine, or was no task.
    """
    return {
        "id": model.id,
        "object": "model",
        "created": int(model.created_at.timestamp()),
        "owned_by": "local",
        "digest": model.digest,
        "size_bytes": model.size_bytes,
        "format": model.format,
        "engine": model.engine,
        "context_length": model.context_length,
        "state": state,
        "memory_bytes": memory_bytes,
        "tokens_per_second": None if tokens_per_second is None else round(tokens_per_second, 1),
    }
