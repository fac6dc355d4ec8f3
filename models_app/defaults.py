"""What a model's operator may set in the place of the service's defaults, and within which bounds."""

from models_app.models import LanguageModel

# Least and most of each, as requests have them.
SAMPLING: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
LEAST_CONTEXT = 128


def most_context(model: LanguageModel) -> int:
    """Return the longest context that a model can be given, in tokens."""
    return model.trained_context_length or 1 << 20
