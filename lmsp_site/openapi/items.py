"""Items of conversations in JSON Schema: as a request may bring them, and as they are shown."""

from typing import Any

Schema = dict[str, Any]

_MAX_TEXT = 10 * 1024 * 1024
_STATUSES = ["in_progress", "completed", "incomplete"]


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def either(*schemas: Schema) -> Schema:
    """Return what is one of some."""
    return {"anyOf": list(schemas)}


def nullable(schema: Schema) -> Schema:
    """Return what may be null, too."""
    return either(schema, {"type": "null"})


def record(properties: Schema, *optional: str, **more: Any) -> Schema:
    """Return an object of which all properties are required, but for those named."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        **more,
    }


def const(*values: str | int | None) -> Schema:
    """Return the one value there is, or one of some."""
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def listed(schema: Schema, most: int | None = None) -> Schema:
    """Return a list."""
    return {"type": "array", "items": schema, **({} if most is None else {"maxItems": most})}


STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string", "maxLength": _MAX_TEXT}
_ID: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}
CALL_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[^\\s\\x00-\\x1f]+$"}
FUNCTION: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}
_MAYBE_STATUS = {"enum": [*_STATUSES, None]}
_MAYBE_ID = nullable(_ID)


def _parts(kind: str) -> Schema:
    return listed(record({"type": const(kind), "text": TEXT}), 1024)


INPUT_PART = record({"type": const("input_text", "output_text", "text"), "text": TEXT})
REFUSAL = record({"type": const("refusal"), "refusal": TEXT})

# `input` as a request brings it.
INPUT: Schema = either(
    {**TEXT, "description": "One message of the user."},
    {**listed(ref("InputItem"), 4096), "minItems": 1, "description": "The items of a conversation, oldest first."},
)

INPUT_ITEMS: Schema = {
    "InputItem": either(
        ref("InputMessage"),
        ref("FunctionCallInput"),
        ref("FunctionCallOutputInput"),
        ref("ReasoningInput"),
        ref("CompactionInput"),
        ref("ItemReference"),
    ),
    "InputMessage": record(
        {
            "type": const("message", None),
            "id": _MAYBE_ID,
            "role": const("user", "assistant", "system", "developer"),
            "status": _MAYBE_STATUS,
            "content": either(TEXT, listed(either(INPUT_PART, REFUSAL), 1024)),
            "phase": const("commentary", "final_answer", None),
        },
        *("type", "id", "status", "phase"),
        description="`type` may be left out. Models take text only; a refusal is the assistant's.",
    ),
    "FunctionCallInput": record(
        {
            "type": const("function_call"),
            "id": _MAYBE_ID,
            "status": _MAYBE_STATUS,
            "call_id": CALL_ID,
            "name": FUNCTION,
            "arguments": TEXT,
        },
        *("id", "status"),
    ),
    "FunctionCallOutputInput": record(
        {
            "type": const("function_call_output"),
            "id": _MAYBE_ID,
            "status": _MAYBE_STATUS,
            "call_id": CALL_ID,
            "output": either(TEXT, listed(INPUT_PART, 1024)),
        },
        *("id", "status"),
        description="Its call stands before it.",
    ),
    "ReasoningInput": record(
        {
            "type": const("reasoning"),
            "id": _MAYBE_ID,
            "summary": _parts("summary_text"),
            "content": nullable(_parts("reasoning_text")),
            "encrypted_content": nullable(TEXT),
        },
        *("id", "content", "encrypted_content"),
        description="Kept and shown; not given to the model.",
    ),
    "CompactionInput": record(
        {
            "type": const("compaction"),
            "id": _MAYBE_ID,
            "encrypted_content": {"type": "string", "minLength": 1, "maxLength": 16 * 1024 * 1024},
        },
        "id",
        description="What `POST /v1/responses/compact` has given: the items in it stand in its place.",
    ),
    "ItemReference": record(
        {"type": const("item_reference", None), "id": _ID},
        "type",
        description="An item of a finished response of one's own.",
    ),
}

LOGPROBS: Schema = {**listed(ref("Logprob")), "description": "One for each token, where they were asked for."}
_BYTE: Schema = {"type": "integer", "minimum": 0, "maximum": 255}
_LIKELY: Schema = {
    "token": {**STRING, "description": "Its text, or its name where it has none."},
    "bytes": {**listed(_BYTE), "description": "Of its text, which may be half a character."},
    "logprob": {"type": "number", "maximum": 0, "description": "The natural logarithm of its probability."},
}
_SHOWN_PART = either(ref("InputText"), ref("OutputText"), ref("Refusal"))
_STATUS = {"enum": _STATUSES}

ITEMS: Schema = {
    "InputText": record({"type": const("input_text"), "text": STRING}),
    "OutputText": record(
        {
            "type": const("output_text"),
            "text": STRING,
            "annotations": {**listed({}), "description": "Always empty."},
            "logprobs": LOGPROBS,
        },
    ),
    "Logprob": record(
        {**_LIKELY, "top_logprobs": listed(record(_LIKELY), 20)},
        description="How likely a token was before anything had a say in the choice: by the model alone.",
    ),
    "Refusal": record({"type": const("refusal"), "refusal": STRING}),
    "Message": record(
        {
            "type": const("message"),
            "id": STRING,
            "role": const("user", "assistant", "system", "developer"),
            "status": _STATUS,
            "content": listed(_SHOWN_PART),
            "phase": const("commentary", "final_answer"),
        },
        "phase",
    ),
    "FunctionCall": record(
        {
            "type": const("function_call"),
            "id": STRING,
            "status": _STATUS,
            "call_id": STRING,
            "name": STRING,
            "arguments": STRING,
        }
    ),
    "FunctionCallOutput": record(
        {
            "type": const("function_call_output"),
            "id": STRING,
            "status": _STATUS,
            "call_id": STRING,
            "output": either(STRING, listed(ref("InputText"))),
        }
    ),
    "Reasoning": record(
        {
            "type": const("reasoning"),
            "id": STRING,
            "summary": listed(record({"type": const("summary_text"), "text": STRING})),
            "content": listed(record({"type": const("reasoning_text"), "text": STRING})),
            "encrypted_content": STRING,
        },
        *("content", "encrypted_content"),
    ),
    "Compaction": record({"type": const("compaction"), "id": STRING, "encrypted_content": STRING}),
    "Item": either(ref("Message"), ref("FunctionCall"), ref("FunctionCallOutput"), ref("Reasoning")),
}
