"""The body of a chat completion as the response request that it means."""

from typing import Any

from rest_framework import serializers

from lmsp_site.errors import ProtocolError
from lmsp_site.fields import Refused, StrictBoolean, StrictInteger
from lmsp_site.models import RestartPolicy
from tasks_app.input_items import MAX_ITEMS, read_item
from tasks_app.items import Item
from tasks_app.request_fields import ReasoningField, ResponseFormatField, TextField
from tasks_app.serializers import ResponseRequest
from tasks_app.tool_fields import ChatToolChoiceField, ChatToolsField

_ROLES = ("developer", "system", "user", "assistant", "tool")
# What a message may say that a model of this service cannot be told.
_NOT_TOLD = {
    "name": "the models' templates have no place for names; say them in the content.",
    "audio": "the model takes text only.",
    "function_call": "send tool_calls.",
}
_RESPONSES_HAVE_IT = "This is a field of POST /v1/responses."
# Fields of the other API: whoever sends them means something, and would not get it.
_ELSEWHERE = {
    "input": "This address takes messages.",
    "instructions": "Send a message of role system.",
    "previous_response_id": "Send the whole conversation as messages, or go on with POST /v1/responses.",
    "conversation": "This service keeps no conversations; send the whole one as messages.",
    "prompt": "This service keeps no prompt templates; send the text as messages.",
    "personality": "The model has no such setting; say it in a message of role system.",
    "max_output_tokens": "It is called max_completion_tokens here.",
    "text": "It is called response_format here.",
    "reasoning": "It is called reasoning_effort here.",
    "truncation": _RESPONSES_HAVE_IT,
    "include": _RESPONSES_HAVE_IT,
    "background": _RESPONSES_HAVE_IT,
    "max_tool_calls": _RESPONSES_HAVE_IT,
}
_NAMED_THERE = {"input": "messages", "reasoning": "reasoning_effort"}
_MOST_TOKENS = 2**31 - 1
_TAKES_NOTHING_BACK = "Chunks cannot be taken back for a retry; leave stream out, or stream from POST /v1/responses."


class MessagesField(serializers.Field):
    """``messages``: a list of messages; becomes items, as ``input_items`` reads those of a response."""

    def to_internal_value(self, data: Any) -> list[Item]:
        """Read the messages; the error names the one that cannot be taken."""
        if not isinstance(data, list):
            raise serializers.ValidationError("Must be a list of messages.")
        if not 0 < len(data) <= MAX_ITEMS:
            raise serializers.ValidationError(f"Must have 1 to {MAX_ITEMS} messages.")
        return [item for index, message in enumerate(data) for item in _read(message, f"Message {index}")]

    def to_representation(self, value: Any) -> Any:
        """Return the items as they are."""
        return value


def _read(message: Any, called: str) -> list[Item]:
    if not isinstance(message, dict):
        raise serializers.ValidationError(f"{called}: must be an object.")
    role = message.get("role")
    if role not in _ROLES:
        raise serializers.ValidationError(f"{called}: role must be one of {', '.join(_ROLES)}.")
    if role == "tool":
        output = {"call_id": message.get("tool_call_id"), "output": message.get("content")}
        return [read_item({"type": "function_call_output", **output}, f"{called}, read as function_call_output")]
    for name, reason in _NOT_TOLD.items():
        if message.get(name) is not None:
            raise serializers.ValidationError(f"{called}: {name}: {reason}")
    if role == "assistant":
        return _said(message, called)
    return [read_item({"role": role, "content": message.get("content")}, called)]


def _said(message: dict[str, Any], called: str) -> list[Item]:
    """Return what an assistant has said, and the calls it has made after it."""
    content, refusal, calls = message.get("content"), message.get("refusal"), message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise serializers.ValidationError(f"{called}: tool_calls must be a list.")
    if refusal is not None and isinstance(content, str | list | None):
        before = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        content = [*before, {"type": "refusal", "refusal": refusal}]
    # Beside calls an empty text is a way to say nothing.
    says_nothing = bool(calls) and content in (None, "", [])
    found = [] if says_nothing else [read_item({"role": "assistant", "content": content}, called)]
    return found + [_called(call, f"{called}, call {index}") for index, call in enumerate(calls)]


def _called(call: Any, called: str) -> Item:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function":
        raise serializers.ValidationError(f"{called}: must be an object of type function, with its function.")
    made = {"call_id": call.get("id"), "name": function.get("name"), "arguments": function.get("arguments")}
    return read_item({"type": "function_call", **made}, f"{called}, read as function_call")


class Only(serializers.Field):
    """What would ask for more than this service does: it takes the values that do not."""

    def __init__(self, *values: Any, reason: str) -> None:
        self.values = values
        self.reason = reason
        super().__init__(allow_null=True, default=None)

    def to_internal_value(self, data: Any) -> Any:
        """Refuse all others."""
        # In Python True is 1.
        if not any(type(data) is type(value) and data == value for value in self.values):
            raise serializers.ValidationError(self.reason)
        return data

    def to_representation(self, value: Any) -> Any:
        """Return the value as it is."""
        return value


class Member(serializers.Field):
    """What in a response request is a member of another field; becomes that field."""

    def __init__(self, whole: serializers.Field, member: str) -> None:
        self.whole = whole
        self.member = member
        super().__init__(allow_null=True, default=None)

    def to_internal_value(self, data: Any) -> Any:
        """Read it as that field does."""
        return self.whole.to_internal_value({self.member: data})

    def to_representation(self, value: Any) -> Any:
        """Return the value as it is."""
        return value


class StreamOptions(serializers.Serializer[Any]):
    """``stream_options``; streams are never padded, so that one of them has no effect."""

    include_usage = StrictBoolean(allow_null=True, default=None)
    include_obfuscation = StrictBoolean(allow_null=True, default=None)


class ChatRequest(ResponseRequest):
    """The body of POST /v1/chat/completions: a response request, some of whose fields have other names."""

    messages = MessagesField()
    max_completion_tokens = StrictInteger(allow_null=True, min_value=1, max_value=_MOST_TOKENS, default=None)
    max_tokens = StrictInteger(allow_null=True, min_value=1, max_value=_MOST_TOKENS, default=None)
    response_format = ResponseFormatField(allow_null=True, default=None)
    verbosity = Member(TextField(), "verbosity")
    reasoning_effort = Member(ReasoningField(), "effort")
    stream_options = StreamOptions(allow_null=True, default=None)
    n = Only(1, reason="This service gives one answer to a request; n must be 1.")
    modalities = Only(["text"], reason='This service answers in text only; modalities must be ["text"].')
    tools = ChatToolsField(allow_null=True, default=None)
    tool_choice = ChatToolChoiceField(allow_null=True, default=None)
    functions = Only([], reason="This is the older form; send tools.")
    function_call = Only("auto", "none", reason="This is the older form; send tool_choice.")
    audio = Refused("This service answers in text only.")
    web_search_options = Refused("This service does not search the web.")

    def get_fields(self) -> dict[str, serializers.Field]:
        """Refuse what only the other API knows."""
        return {**super().get_fields(), **{name: Refused(reason) for name, reason in _ELSEWHERE.items()}}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Call the fields as a response request does."""
        if attrs["stream"] and attrs["on_restart"] == RestartPolicy.RETRY:
            raise serializers.ValidationError({"on_restart": _TAKES_NOTHING_BACK})
        if attrs["top_logprobs"] and not attrs["logprobs"]:
            raise serializers.ValidationError({"top_logprobs": "Send logprobs: true with it."})
        most, older = attrs["max_completion_tokens"], attrs["max_tokens"]
        if most is not None and older not in (None, most):
            raise serializers.ValidationError({"max_tokens": "Send max_completion_tokens alone."})
        attrs["input"] = attrs["messages"]
        attrs["max_output_tokens"] = older if most is None else most
        attrs["text"] = {**(attrs["verbosity"] or {}), **(attrs["response_format"] or {})} or None
        attrs["reasoning"] = attrs["reasoning_effort"]
        return super().validate(attrs)


def named_as_sent(error: ProtocolError) -> ProtocolError:
    """Let an error about a conversation name the field that this API has for it."""
    if error.param in _NAMED_THERE:
        name = _NAMED_THERE[error.param]
        error.message = f"{name}: {error.message.removeprefix(f'{error.param}: ')}"
        error.param = name
    return error
