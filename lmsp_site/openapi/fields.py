"""How the fields of request bodies, which take JSON as it is, look in JSON Schema."""

from copy import deepcopy

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema

from lmsp_site.openapi.chat import MESSAGES
from lmsp_site.openapi.items import INPUT, Schema, const, either, nullable, record
from lmsp_site.openapi.tools import CHAT_TOOL_CHOICE, CHAT_TOOLS, TOOL_CHOICE, TOOLS
from lmsp_site.strict_json import MAX_INTEGER


class _Fixed(OpenApiSerializerFieldExtension):
    """A field whose schema is always the same; that it may be null is added to it."""

    schema: Schema

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        """Return it."""
        return deepcopy(self.schema)


class Integers(OpenApiSerializerFieldExtension):
    """Integers that every JSON reader keeps."""

    target_class = "lmsp_site.fields.StrictInteger"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        """Return the range that is taken."""
        least, most = self.target.min_value, self.target.max_value
        return {
            "type": "integer",
            "minimum": -MAX_INTEGER if least is None else least,
            "maximum": MAX_INTEGER if most is None else most,
        }


class Choices(OpenApiSerializerFieldExtension):
    """One of some strings."""

    target_class = "lmsp_site.fields.StrictChoice"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        """Return which."""
        return {"type": "string", "enum": [*self.target.allowed, *([None] if self.target.allow_null else [])]}


class RefusedFields(OpenApiSerializerFieldExtension):
    """What cannot be asked for."""

    target_class = "lmsp_site.fields.Refused"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        """Return that null alone is taken, and why."""
        # The library adds the one kind that is left.
        return {"anyOf": [], "description": f"Refused. {self.target.reason}"}


class OnlyFields(OpenApiSerializerFieldExtension):
    """What can be asked for as long as it asks for nothing."""

    target_class = "tasks_app.chat_requests.Only"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        """Return the values that are taken, and why no others are."""
        return {"anyOf": [{"enum": list(self.target.values)}], "description": self.target.reason}


class Members(OpenApiSerializerFieldExtension):
    """What is a member of another field in a response request."""

    target_class = "tasks_app.chat_requests.Member"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> Schema:
        """Return what that field says of it."""
        whole = auto_schema._map_serializer_field(self.target.whole, direction)
        return {"anyOf": [whole["properties"][self.target.member]]}


class Messages(_Fixed):
    """``messages``."""

    target_class = "tasks_app.chat_requests.MessagesField"
    schema = MESSAGES


class Input(_Fixed):
    """``input``."""

    target_class = "tasks_app.input_items.InputField"
    schema = INPUT


class Stop(_Fixed):
    """``stop``."""

    target_class = "tasks_app.request_fields.StopField"
    schema = {
        "description": "Texts at which the generation ends; they are not part of the output.",
        "anyOf": [
            {"type": "string", "minLength": 1, "maxLength": 500},
            {"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1, "maxLength": 500}},
        ],
    }


class Metadata(_Fixed):
    """``metadata``."""

    target_class = "tasks_app.request_fields.MetadataField"
    schema = {
        "type": "object",
        "description": "What the client wants to find again; lists of tasks can be narrowed by it.",
        "maxProperties": 16,
        "propertyNames": {"maxLength": 64},
        "additionalProperties": {"type": "string", "maxLength": 512},
    }


class Include(_Fixed):
    """``include``."""

    target_class = "tasks_app.request_fields.IncludeField"
    schema = {
        "type": "array",
        "description": "The last one asks for log probabilities; the others are about nothing that a model puts out.",
        "maxItems": 16,
        "items": {
            "type": "string",
            "enum": [
                "file_search_call.results",
                "web_search_call.results",
                "web_search_call.action.sources",
                "message.input_image.image_url",
                "computer_call_output.output.image_url",
                "code_interpreter_call.outputs",
                "reasoning.encrypted_content",
                "message.output_text.logprobs",
            ],
        },
    }


_SCHEMA: Schema = {
    "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "schema": {"type": "object", "additionalProperties": True, "description": "What is not supported is refused."},
    "description": nullable({"type": "string", "maxLength": 4096}),
    "strict": {"type": ["boolean", "null"], "description": "Shown again; the schema is kept to in any case."},
}
_DESCRIBED: Schema = {"type": const("json_schema"), **_SCHEMA}
_UNDESCRIBED = record({"type": const("text", "json_object")})


class Text(_Fixed):
    """``text``."""

    target_class = "tasks_app.request_fields.TextField"
    schema = {
        "type": "object",
        "description": "The form of the answer, which is kept to.",
        "properties": {
            "format": nullable(either(_UNDESCRIBED, record(_DESCRIBED, "description", "strict"))),
            "verbosity": {"enum": ["medium", None]},
        },
    }


class ResponseFormat(_Fixed):
    """``response_format``."""

    target_class = "tasks_app.request_fields.ResponseFormatField"
    schema = {
        "description": "The form of the answer, which is kept to.",
        "anyOf": [
            _UNDESCRIBED,
            record({"type": const("json_schema"), "json_schema": record(_SCHEMA, "description", "strict")}),
        ],
    }


class LogitBias(_Fixed):
    """``logit_bias``."""

    target_class = "tasks_app.request_fields.LogitBiasField"
    schema = {
        "type": "object",
        "description": "By token id: what is added to its logit before all else.",
        "maxProperties": 1024,
        "propertyNames": {"pattern": "^[0-9]{1,9}$"},
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
    }


class Reasoning(_Fixed):
    """``reasoning``."""

    target_class = "tasks_app.request_fields.ReasoningField"
    schema = {
        "type": "object",
        "description": "Whether the model reasons before it answers, if it can: `none` or `medium`.",
        "properties": {
            "effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", None]},
            "summary": {"enum": ["auto", "concise", "detailed", None]},
        },
    }


class ToolChoice(_Fixed):
    """``tool_choice``."""

    target_class = "tasks_app.tool_fields.ToolChoiceField"
    schema = TOOL_CHOICE


class Tools(_Fixed):
    """``tools``."""

    target_class = "tasks_app.tool_fields.ToolsField"
    schema = TOOLS


class ChatToolChoice(_Fixed):
    """``tool_choice`` of chat completions."""

    target_class = "tasks_app.tool_fields.ChatToolChoiceField"
    schema = CHAT_TOOL_CHOICE


class ChatTools(_Fixed):
    """``tools`` of chat completions."""

    target_class = "tasks_app.tool_fields.ChatToolsField"
    schema = CHAT_TOOLS
