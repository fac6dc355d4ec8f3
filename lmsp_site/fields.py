"""Serializer fields that take a JSON type as it is and never convert another into it."""

import math
import threading
from collections.abc import Collection
from typing import Any

from rest_framework import serializers


class StrictString(serializers.CharField):
    """A JSON string, kept as it came."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        """Refuse everything but strings."""
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        return super().to_internal_value(data)


class StrictChoice(StrictString):
    """One of some strings."""

    def __init__(self, choices: Collection[str], **kwargs: Any) -> None:
        self.allowed = choices
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        """Refuse all others, naming those there are."""
        value = super().to_internal_value(data)
        if value not in self.allowed:
            raise serializers.ValidationError(f"Must be one of {', '.join(self.allowed)}.")
        return value


class StrictInteger(serializers.IntegerField):
    """A JSON integer; 5.0, "5" and true are not."""

    def to_internal_value(self, data: Any) -> int:
        """Refuse everything but integers."""
        if not isinstance(data, int) or isinstance(data, bool):
            raise serializers.ValidationError("Must be an integer.")
        return super().to_internal_value(data)


class StrictNumber(serializers.FloatField):
    """A finite JSON number."""

    def to_internal_value(self, data: Any) -> float:
        """Refuse everything but finite numbers."""
        if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
            raise serializers.ValidationError("Must be a number.")
        return float(data)


class StrictBoolean(serializers.BooleanField):
    """``true`` or ``false``."""

    def to_internal_value(self, data: Any) -> bool:
        """Refuse everything but booleans."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("Must be true or false.")
        return data


class _Readers(threading.local):
    """One of each request for each thread: the library copies all fields for a new one, longer than it reads a body."""

    def __init__(self) -> None:
        self.known: dict[type[serializers.Serializer[Any]], serializers.Serializer[Any]] = {}


_readers = _Readers()


def read(serializer: type[serializers.Serializer[Any]], body: dict[str, Any]) -> dict[str, Any]:
    """Return the validated fields of `body`, each present.

    Raises:
        ValidationError: naming the first field that cannot be meant.
    """
    request = _readers.known.get(serializer)
    if request is None:
        request = _readers.known[serializer] = serializer()
    fields: dict[str, Any] = request.run_validation(body)
    return fields


class Refused(serializers.Field):
    """What a request must not ask for, with the reason; null asks for nothing."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(allow_null=True, default=None)

    def to_internal_value(self, data: Any) -> None:
        """Refuse everything."""
        raise serializers.ValidationError(self.reason)

    def to_representation(self, value: Any) -> Any:
        """Return the value as it is."""
        return value
