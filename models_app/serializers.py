"""The model object of the API."""

from typing import Any

from models_app.models import LanguageModel


def model_object(model: LanguageModel, state: str) -> dict[str, Any]:
    """Return the OpenAI model object with what LMSP adds: digest, size, format, context length, state."""
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
    }
