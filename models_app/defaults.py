"""What a model's operator may set in the place of the service's defaults, and within which bounds."""

from typing import NamedTuple

from models_app.models import LanguageModel


class Setting(NamedTuple):
    """A number that says how tokens are chosen, within its bounds in requests and as a model's default."""

    least: float
    most: float
    meaning: str


SAMPLING = {
    "temperature": Setting(0, 2, "0 takes the likeliest token each time."),
    "top_p": Setting(0, 1, "Choose among the likeliest tokens that have this share together; 1 among all."),
    "presence_penalty": Setting(-2, 2, "Subtracted from the logits of tokens that have come; 0 changes nothing."),
    "frequency_penalty": Setting(-2, 2, "Subtracted from a logit each time its token has come; 0 changes nothing."),
    "top_k": Setting(0, 2**31 - 1, "Choose among so many of the likeliest tokens; 0 among all."),
    "min_p": Setting(0, 1, "Choose among tokens at least so likely as this share of the likeliest one; 0 among all."),
    "repetition_penalty": Setting(0.01, 10, "Divides the logits of tokens that have come; 1 changes nothing."),
}
LEAST_CONTEXT = 128


def most_context(model: LanguageModel) -> int:
    """Return the longest context that a model can be given, in tokens."""
    return model.trained_context_length or 1 << 20
