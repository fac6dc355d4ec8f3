"""Request bodies into fields that are checked, and tasks into the API's task object.

What would change the answer and cannot be done is refused; ``docs/protocol.md`` says of every field what becomes of it.
"""

from typing import Any

from rest_framework import serializers

from lmsp_site.fields import Refused, StrictBoolean, StrictChoice, StrictInteger, StrictNumber, StrictString
from lmsp_site.fields import read as read
from lmsp_site.models import RestartPolicy
from models_app.defaults import SAMPLING
from tasks_app import reading, responses
from tasks_app.input_items import MAX_TEXT, InputField
from tasks_app.models import Priority, Task
from tasks_app.request_fields import (
    LOGPROBS,
    IncludeField,
    LogitBiasField,
    MetadataField,
    ReasoningField,
    StopField,
    TextField,
)
from tasks_app.states import FINISHED
from tasks_app.tool_fields import ToolChoiceField, ToolsField, check_choice

_LAST_SECOND = 253402300799  # Of the year 9999.
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}
# What a tier promises is here a place in the queue; the others make no difference.
_PRIORITY_OF_TIER = {"flex": Priority.BATCH, "priority": Priority.INTERACTIVE, "fast": Priority.INTERACTIVE}
_SERVICE_TIERS = ("auto", "default", "flex", "priority", "fast")


def _bounds(name: str) -> dict[str, Any]:
    """Return the bounds of a number that an operator may set for a model as well, and within the same."""
    return {"min_value": SAMPLING[name].least, "max_value": SAMPLING[name].most}


class PromptRequest(serializers.Serializer[Any]):
    """What a prompt is made of."""

    model = StrictString(max_length=200)
    input = InputField(allow_null=True, default=None)
    instructions = StrictString(allow_null=True, allow_blank=True, max_length=MAX_TEXT, default=None)
    previous_response_id = StrictString(allow_null=True, max_length=64, default=None)
    conversation = Refused("This service keeps no conversations; send previous_response_id.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """There is something to answer."""
        if attrs["input"] is None and attrs["previous_response_id"] is None:
            raise serializers.ValidationError({"input": "Send input, or previous_response_id to go on without any."})
        return attrs


class CompactRequest(PromptRequest):
    """The body of POST /v1/responses/compact."""

    prompt_cache_key = StrictString(allow_null=True, max_length=64, default=None)


class CountRequest(PromptRequest):
    """The body of POST /v1/responses/input_tokens: all that makes a difference to the prompt, or could."""

    truncation = StrictChoice(("auto", "disabled"), allow_null=True, default=None)
    max_output_tokens = StrictInteger(allow_null=True, min_value=1, max_value=2**31 - 1, default=None)
    tools = ToolsField(allow_null=True, default=None)
    tool_choice = ToolChoiceField(allow_null=True, default=None)
    parallel_tool_calls = StrictBoolean(allow_null=True, default=None)
    text = TextField(allow_null=True, default=None)
    reasoning = ReasoningField(allow_null=True, default=None)
    personality = Refused("The model has no such setting; say it in instructions.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The choice is one of the tools, and their schemas can be kept to where that is asked."""
        check_choice(attrs["tool_choice"], attrs["tools"])
        reading.check_schemas(attrs)
        return super().validate(attrs)


class ResponseRequest(CountRequest):
    """The body of POST /v1/responses."""

    temperature = StrictNumber(allow_null=True, default=None, **_bounds("temperature"))
    top_p = StrictNumber(allow_null=True, default=None, **_bounds("top_p"))
    presence_penalty = StrictNumber(allow_null=True, default=None, **_bounds("presence_penalty"))
    frequency_penalty = StrictNumber(allow_null=True, default=None, **_bounds("frequency_penalty"))
    top_k = StrictInteger(allow_null=True, default=None, **_bounds("top_k"))
    min_p = StrictNumber(allow_null=True, default=None, **_bounds("min_p"))
    repetition_penalty = StrictNumber(allow_null=True, default=None, **_bounds("repetition_penalty"))
    logit_bias = LogitBiasField(allow_null=True, default=None)
    seed = StrictInteger(allow_null=True, min_value=0, default=None)
    stop = StopField(allow_null=True, default=None)
    metadata = MetadataField(allow_null=True, default=None)
    include = IncludeField(allow_null=True, default=None)
    on_restart = StrictChoice(RestartPolicy.values, allow_null=True, default=None)
    expires_at = StrictInteger(allow_null=True, min_value=0, max_value=_LAST_SECOND, default=None)
    priority = StrictChoice(_PRIORITIES, allow_null=True, default=None)
    service_tier = StrictChoice(_SERVICE_TIERS, allow_null=True, default=None)
    store = StrictBoolean(allow_null=True, default=None)
    stream = StrictBoolean(allow_null=True, default=None)
    background = StrictBoolean(allow_null=True, default=None)
    max_tool_calls = StrictInteger(allow_null=True, min_value=1, max_value=2**31 - 1, default=None)
    safety_identifier = StrictString(allow_null=True, max_length=128, default=None)
    prompt_cache_key = StrictString(allow_null=True, max_length=64, default=None)
    top_logprobs = StrictInteger(allow_null=True, min_value=0, max_value=20, default=None)
    logprobs = StrictBoolean(allow_null=True, default=None)
    # A text that must be kept to: to take it and leave it out would be another answer.
    prompt = Refused("This service keeps no prompt templates; send the text as input or instructions.")
    context_management = Refused("This service compacts when it is asked to: POST /v1/responses/compact.")
    moderation = Refused("This service does not moderate.")
    background_options = Refused("This service has no completion windows; priority and expires_at are what it has.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check what fields mean together."""
        if attrs["background"] and attrs["store"] is False:
            raise serializers.ValidationError({"store": "A background response must be stored to be read."})
        named, tier = attrs["priority"], attrs["service_tier"]
        attrs["priority"] = _PRIORITIES[named] if named else _PRIORITY_OF_TIER.get(tier, Priority.NORMAL)
        attrs["service_tier"] = "default" if tier == "auto" else tier
        # What asks for log probabilities in this API, and what in the other one.
        if not (attrs["top_logprobs"] or attrs["logprobs"] or LOGPROBS in (attrs["include"] or ())):
            attrs["top_logprobs"] = None
        elif attrs["top_logprobs"] is None:
            attrs["top_logprobs"] = 0
        return super().validate(attrs)


class TaskRequest(ResponseRequest):
    """The body of POST /v1/tasks: a response request that always runs in the background."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A task is read after its creation, so it is stored and not streamed by this call."""
        for name in ("stream", "background"):
            if attrs[name] is not None and attrs[name] is not (name == "background"):
                raise serializers.ValidationError({name: "A task runs in the background; read its events."})
        if attrs["store"] is False:
            raise serializers.ValidationError({"store": "A task is always stored."})
        return super().validate(attrs)


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
