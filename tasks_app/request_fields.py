"""Fields of a request that are more than one JSON value."""

import re
from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from tasks_app import text_format

LOGPROBS = "message.output_text.logprobs"
# What the official API knows. None but the last is about anything that a model of this service puts out.
_INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    LOGPROBS,
)
_VERBOSITIES = ("low", "medium", "high")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_SUMMARIES = ("auto", "concise", "detailed")
_MAX_STOPS, _MAX_STOP = 16, 500
_MAX_BIASES, _STRONGEST_BIAS = 1024, 100
_TOKEN_ID = re.compile(r"[0-9]{1,9}")
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
    """``include``: what the official API knows."""

    def to_internal_value(self, data: Any) -> list[str]:
        """Refuse what is unknown."""
        if not isinstance(data, list) or len(data) > 2 * len(_INCLUDABLE):
            raise serializers.ValidationError("Must be a list of strings.")
        if found := first_refusal(data):
            raise serializers.ValidationError(found)
        return data


def first_refusal(include: Iterable[Any]) -> str | None:
    """Return why one of the values is none that can be included; ``None`` where all of them are."""
    for value in include:
        if not isinstance(value, str) or value not in _INCLUDABLE:
            return f"Each must be one of {', '.join(_INCLUDABLE)}."
    return None


class TextField(_Json):
    """``text``: its form, and the length that the model gives it."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return what the response echoes."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        verbosity = data.get("verbosity")
        try:
            text: dict[str, Any] = {"format": text_format.read(data.get("format"))}
        except serializers.ValidationError as error:
            raise _inside("format", error) from None
        if verbosity is None:
            return text
        if verbosity not in _VERBOSITIES:
            raise serializers.ValidationError(f"verbosity must be one of {', '.join(_VERBOSITIES)}.")
        if verbosity != "medium":
            raise serializers.ValidationError('The model has no such setting; verbosity must be "medium".')
        return {**text, "verbosity": verbosity}


class ResponseFormatField(_Json):
    """``response_format`` of a chat completion; becomes ``text``."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return what the response echoes."""
        return {"format": text_format.read_chat(data)}


class LogitBiasField(_Json):
    """``logit_bias``: by token id, what is added to its logit."""

    def to_internal_value(self, data: Any) -> dict[str, float]:
        """Refuse what names no token or leaves the range; whether the model has the token is seen later."""
        if not isinstance(data, dict) or len(data) > _MAX_BIASES:
            raise serializers.ValidationError(f"Must be an object with up to {_MAX_BIASES} entries.")
        for token, bias in data.items():
            if not _TOKEN_ID.fullmatch(token):
                raise serializers.ValidationError(f"{token[:24]!r} is not a token id: a string of digits.")
            if isinstance(bias, bool) or not isinstance(bias, int | float) or not abs(bias) <= _STRONGEST_BIAS:
                raise serializers.ValidationError(f"{token}: must be a number from -100 to 100.")
        return {str(int(token)): float(bias) for token, bias in data.items()}


def _inside(member: str, error: serializers.ValidationError) -> serializers.ValidationError:
    """Return the error with its place in the whole field, where it has one."""
    return serializers.ValidationError({member: error.detail}) if isinstance(error.detail, dict) else error


class ReasoningField(_Json):
    """``reasoning``: whether and how far is the model's to say, since not all of them can."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return what the response echoes."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("Must be an object.")
        effort = data.get("effort")
        if effort is not None and effort not in _EFFORTS:
            raise serializers.ValidationError(f"effort must be one of {', '.join(_EFFORTS)}.")
        summary = data.get("summary") if data.get("summary") is not None else data.get("generate_summary")
        if summary is not None and summary not in _SUMMARIES:
            raise serializers.ValidationError(f"summary must be one of {', '.join(_SUMMARIES)}.")
        return {"effort": effort, "summary": summary}
