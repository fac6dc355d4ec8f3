"""Requests into what ``submission`` takes, and tasks into the API's task object."""

from typing import Any

from rest_framework import serializers

from lmsp_site.fields import StrictBoolean, StrictInteger, StrictNumber, StrictString
from lmsp_site.models import RestartPolicy
from tasks_app import responses
from tasks_app.models import Priority, Task
from tasks_app.states import FINISHED

MAX_INPUT = 10 * 1024 * 1024
_LAST_SECOND = 253402300799  # Of the year 9999.
_ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = ("input_text", "output_text", "text")


def _short(value: Any) -> str:
    """Return what a message can quote of a value that may be anything, of any size."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


class InputField(serializers.Field):
    """``input``: a string, or a list of message items whose content is text.

    Becomes a list of ``{"role", "content"}`` for the model's chat template.
    """

    def to_internal_value(self, data: Any) -> list[dict[str, str]]:
        """Read the items; the error names the one that cannot be taken."""
        if isinstance(data, str):
            return [{"role": "user", "content": self._sized(data)}]
        if not isinstance(data, list):
            raise serializers.ValidationError("Must be a string or a list of message items.")
        if not data:
            raise serializers.ValidationError("Must not be empty.")
        return [self._message(item, index) for index, item in enumerate(data)]

    def to_representation(self, value: Any) -> Any:
        """Return the messages as they are."""
        return value

    def _message(self, item: Any, index: int) -> dict[str, str]:
        if not isinstance(item, dict):
            raise serializers.ValidationError(f"Item {index} must be an object.")
        kind = item.get("type", "message")
        if kind != "message":
            raise serializers.ValidationError(f"Item {index}: this service takes no items of type {_short(kind)}.")
        role = item.get("role")
        if role not in _ROLES:
            raise serializers.ValidationError(f"Item {index}: role must be one of {', '.join(_ROLES)}.")
        # The models' templates have one name for what the API calls system and developer.
        return {
            "role": "system" if role == "developer" else role,
            "content": self._text(item.get("content"), index),
        }

    def _text(self, content: Any, index: int) -> str:
        if isinstance(content, str):
            return self._sized(content)
        if not isinstance(content, list):
            raise serializers.ValidationError(f"Item {index}: content must be a string or a list of parts.")
        texts = []
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in _TEXT_PARTS:
                raise serializers.ValidationError(
                    f"Item {index}: the model takes text only, not content of type {_short(kind)}."
                )
            if not isinstance(part.get("text"), str):
                raise serializers.ValidationError(f"Item {index}: a text part has a string as its text.")
            texts.append(part["text"])
        return self._sized("".join(texts))

    @staticmethod
    def _sized(text: str) -> str:
        if len(text) > MAX_INPUT:
            raise serializers.ValidationError(f"A text has at most {MAX_INPUT} characters.")
        return text


class StopField(serializers.Field):
    """``stop``: a string or up to 16 strings, none of them empty."""

    def to_internal_value(self, data: Any) -> list[str]:
        """Return a list in both cases."""
        texts = [data] if isinstance(data, str) else data
        if (
            not isinstance(texts, list)
            or len(texts) > 16
            or not all(isinstance(text, str) and 0 < len(text) <= 500 for text in texts)
        ):
            raise serializers.ValidationError("Must be a string or up to 16 strings of 1 to 500 characters.")
        return texts

    def to_representation(self, value: Any) -> Any:
        """Return the list as it is."""
        return value


class MetadataField(serializers.Field):
    """Up to 16 pairs; keys of up to 64, values of up to 512 characters."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """Refuse anything else."""
        if not isinstance(data, dict) or len(data) > 16:
            raise serializers.ValidationError("Must be an object with up to 16 entries.")
        for key, value in data.items():
            if len(key) > 64 or not isinstance(value, str) or len(value) > 512:
                raise serializers.ValidationError(
                    "Keys have up to 64 characters, values are strings of up to 512 characters."
                )
        return data

    def to_representation(self, value: Any) -> Any:
        """Return the pairs as they are."""
        return value


class ResponseRequest(serializers.Serializer[Any]):
    """The body of POST /v1/responses. What would change the answer and cannot be done is refused."""

    model = StrictString(max_length=200)
    input = InputField()
    instructions = StrictString(allow_null=True, allow_blank=True, max_length=MAX_INPUT, default=None)
    temperature = StrictNumber(allow_null=True, min_value=0, max_value=2, default=None)
    top_p = StrictNumber(allow_null=True, min_value=0, max_value=1, default=None)
    presence_penalty = StrictNumber(allow_null=True, min_value=-2, max_value=2, default=None)
    frequency_penalty = StrictNumber(allow_null=True, min_value=-2, max_value=2, default=None)
    max_output_tokens = StrictInteger(allow_null=True, min_value=1, max_value=2**31 - 1, default=None)
    seed = StrictInteger(allow_null=True, min_value=0, default=None)
    stop = StopField(allow_null=True, default=None)
    metadata = MetadataField(allow_null=True, default=None)
    on_restart = StrictString(allow_null=True, default=None)
    expires_at = StrictInteger(allow_null=True, min_value=0, max_value=_LAST_SECOND, default=None)
    priority = StrictString(allow_null=True, default=None)
    store = StrictBoolean(allow_null=True, default=None)
    stream = StrictBoolean(allow_null=True, default=None)
    background = StrictBoolean(allow_null=True, default=None)
    previous_response_id = StrictString(allow_null=True, default=None)
    tools = serializers.ListField(allow_null=True, default=None)
    text = serializers.DictField(allow_null=True, default=None)
    top_logprobs = StrictInteger(allow_null=True, default=None)
    truncation = StrictString(allow_null=True, default=None)

    def validate_on_restart(self, value: str | None) -> str | None:
        """Refuse unknown policies."""
        if value is not None and value not in RestartPolicy.values:
            raise serializers.ValidationError(f"Must be one of {', '.join(RestartPolicy.values)}.")
        return value

    def validate_priority(self, value: str | None) -> int:
        """Turn the name into the number tasks are ordered by."""
        names = [name.lower() for name in Priority.names]
        if value is not None and value not in names:
            raise serializers.ValidationError(f"Must be one of {', '.join(names)}.")
        return Priority.NORMAL if value is None else Priority(names.index(value))

    def validate_tools(self, value: list[Any] | None) -> list[Any]:
        """No engine of this version calls tools."""
        if value:
            raise serializers.ValidationError("This service cannot call tools yet; leave tools out.")
        return []

    def validate_text(self, value: dict[str, Any] | None) -> None:
        """Plain text is the only format of this version."""
        form = (value or {}).get("format")
        if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
            raise serializers.ValidationError('This service answers in plain text; format must be {"type": "text"}.')

    def validate_top_logprobs(self, value: int | None) -> None:
        """Log probabilities are not recorded by this version."""
        if value:
            raise serializers.ValidationError("This service does not return log probabilities.")

    def validate_truncation(self, value: str | None) -> None:
        """Nothing is ever cut from a prompt."""
        if value not in (None, "disabled"):
            raise serializers.ValidationError('This service never cuts the input; truncation must be "disabled".')

    def validate_previous_response_id(self, value: str | None) -> None:
        """Chains are not kept by this version."""
        if value is not None:
            raise serializers.ValidationError(
                "This service does not continue stored responses yet; send the earlier messages as input."
            )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check what fields mean together."""
        if attrs["background"] and attrs["store"] is False:
            raise serializers.ValidationError({"store": "A background response must be stored to be read."})
        return attrs


class TaskRequest(ResponseRequest):
    """The body of POST /v1/tasks: a response request that always runs in the background."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A task is read after its creation, so it is stored and not streamed by this call."""
        for name in ("stream", "background"):
            if attrs[name] is not None and attrs[name] is not (name == "background"):
                raise serializers.ValidationError({name: "A task runs in the background; read its events."})
        if attrs["store"] is False:
            raise serializers.ValidationError({"store": "A task is always stored."})
        return attrs


def read(serializer: type[ResponseRequest], body: dict[str, Any]) -> dict[str, Any]:
    """Return the validated fields of `body`, each present.

    Raises:
        ValidationError: naming the first field that cannot be meant.
    """
    request = serializer(data=body)
    request.is_valid(raise_exception=True)
    fields: dict[str, Any] = request.validated_data
    return fields


def task_object(task: Task, position: int | None = None) -> dict[str, Any]:
    """Return the API's task object.

    Args:
        task: with its response at hand.
        position: place in the queue, from 1; ``None`` when it does not wait.
    """
    item: dict[str, Any] = {
        "id": task.id,
        "object": "task",
        "status": task.status,
        "response_id": responses.of(task).id,
        "model": task.model,
        "on_restart": task.on_restart,
        "priority": Priority(task.priority).name.lower(),
        "attempt": task.attempt,
        "position": position,
        "progress": task.progress,
        "error": {"code": task.error_code, "message": task.error_message} if task.error_code else None,
        "usage": responses.usage(task),
        "last_sequence_number": task.last_sequence_number,
        "metadata": task.metadata,
        "created_at": responses.unix(task.created_at),
        "started_at": responses.unix(task.started_at),
        "finished_at": responses.unix(task.finished_at),
        "expires_at": responses.unix(task.expires_at),
    }
    if task.status in FINISHED:
        item["incomplete_details"] = {"reason": task.incomplete_reason} if task.incomplete_reason else None
    return item
