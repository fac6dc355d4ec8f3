"""Models as commands show them."""

from typing import Any

from models_app.models import LanguageModel


def describe(model: LanguageModel) -> dict[str, Any]:
    """Return what is known of a model, and which others have the same content."""
    same = LanguageModel.objects.filter(digest=model.digest).exclude(pk=model.pk)
    return {
        "id": model.id,
        "aliases": [alias.name for alias in model.aliases.all()],
        "state": model.file_state,
        "digest": model.digest,
        "size_bytes": model.size_bytes,
        "format": model.format,
        "engine": model.engine,
        "architecture": model.architecture,
        "parameter_count": model.parameter_count,
        "quantization": model.quantization,
        "context_length": model.context_length,
        "has_chat_template": model.has_chat_template,
        "license": model.license,
        "base_model": model.base_model,
        "file": model.file,
        "files": len(model.files),
        "checked_at": model.checked_at.isoformat() if model.checked_at else None,
        "same_content_as": list(same.values_list("pk", flat=True)),
    }
