"""Fields of a request that are more than one JSON value."""

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

# What the official API knows. None but the last is about anything that a model of this service puts out.
_INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_VERBOSITIES = ("low", "medium", "high")
_SUMMARIES = ("auto", "concise", "detailed")
_MAX_STOPS, _MAX_STOP = 16, 500
_MAX_PAIRS, _MAX_KEY, _MAX_VALUE = 16, 64, 512


class _Json(serializers.Field):
    """A field whose value is shown as it is."""

    def to_representation(self, value: Any) -> Any:
        """Return it."""
        return value


class StopField(_Json):
    """``stop``: a string or up to 16 strings, none of them empty."""

    def to_internal_value(self, data: Any) -> list[str]:
        """Return a list in both cases."""
        texts = [data] if isinstance(data, str) else data
        if (
            not isinstance(texts, list)
            or len(texts) > _MAX_STOPS
            or not all(isinstance(text, str) and 0 < len(text) <= _MAX_STOP for text in texts)
        ):
            raise serializers.ValidationError(
                f"Must be a string or up to {_MAX_STOPS} strings of 1 to {_MAX_STOP} characters."
            )
        return texts


class MetadataField(_Json):
    """Up to 16 pairs; keys of up to 64, values of up to 512 characters."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """Refuse anything else."""
        if not isinstance(data, dict) or len(data) > _MAX_PAIRS:
            raise serializers.ValidationError(f"Must be an object with up to {_MAX_PAIRS} entries.")
        for key, value in data.items():
            if len(key) > _MAX_KEY or not isinstance(value, str) or len(value) > _MAX_VALUE:
                raise serializers.ValidationError(
                    f"Keys have up to {_MAX_KEY} characters, values are strings of up to {_MAX_VALUE} characters."
                )
        return data


class IncludeField(_Json):
    """``include``: what the official API knows, but for what this service would have to leave out."""

    def to_internal_value(self, data: Any) -> list[str]:
        """Refuse what is unknown, and log probabilities."""
        if not isinstance(data, list) or len(data) > 2 * len(_INCLUDABLE):
            raise serializers.ValidationError("Must be a list of strings.")
        if found := first_refusal(data):
            raise serializers.ValidationError(found)
        return data


def first_refusal(include: Iterable[Any]) -> str | None:
    """Return why one of the values cannot be included; ``None`` where all of them can."""
    for value in include:
        if not isinstance(value, str) or value not in _INCLUDABLE:
            return f"Each must be one of {', '.join(_INCLUDABLE)}."
        if value == "message.output_text.logprobs":
            return f"{value}: this service does not return log probabilities."
    return None


class TextField(_Json):
    """``text``: plain text of the length that the model gives it."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return what the response echoes."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        form, verbosity = data.get("format"), data.get("verbosity")
        if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
            raise serializers.ValidationError('This service answers in plain text; format must be {"type": "text"}.')
        text: dict[str, Any] = {"format": {"type": "text"}}
        if verbosity is None:
            return text
        if verbosity not in _VERBOSITIES:
            raise serializers.ValidationError(f"verbosity must be one of {', '.join(_VERBOSITIES)}.")
        if verbosity != "medium":
            raise serializers.ValidationError('The model has no such setting; verbosity must be "medium".')
        return {**text, "verbosity": verbosity}


class ReasoningField(_Json):
    """``reasoning``: none, since no model of this service reasons apart from its answer."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return what the response echoes."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        effort = data.get("effort")
        if effort not in (None, "none"):
            raise serializers.ValidationError('The model does not reason before it answers; effort must be "none".')
        summary = data.get("summary") if data.get("summary") is not None else data.get("generate_summary")
        if summary is not None and summary not in _SUMMARIES:
            raise serializers.ValidationError(f"summary must be one of {', '.join(_SUMMARIES)}.")
        return {"effort": effort, "summary": summary}


class ToolChoiceField(_Json):
    """``tool_choice``: what can be kept without tools."""

    def to_internal_value(self, data: Any) -> str:
        """Refuse what demands a call."""
        if data in ("auto", "none"):
            return str(data)
        raise serializers.ValidationError('This service cannot call tools yet; tool_choice must be "auto" or "none".')
