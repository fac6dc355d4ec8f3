"""The model object of the API."""

from typing import Any

from models_app.models import LanguageModel


def model_object(
    model: LanguageModel, state: str, memory_bytes: int | None, *, tokens_per_second: float | None
) -> dict[str, Any]:
    """Return the OpenAI model object with what LMSP adds: what its files say of themselves, its names and its state.

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
        "trained_context_length": model.trained_context_length,
        "architecture": model.architecture,
        "parameter_count": model.parameter_count or None,
        "quantization": model.quantization or None,
        "license": model.license or None,
        "base_model": model.base_model or None,
        "has_chat_template": model.has_chat_template,
        "files": [
            {"name": entry["name"], "size_bytes": entry["size"], "digest": f"sha256:{entry['sha256']}"}
            for entry in model.files
        ],
        "aliases": [alias.name for alias in model.aliases.all()],
        "sampling": model.sampling,
        "state": state,
        "memory_bytes": memory_bytes,
        "tokens_per_second": None if tokens_per_second is None else round(tokens_per_second, 1),
    }
