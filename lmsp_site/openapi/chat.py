"""Chat completions in JSON Schema: the messages that a request brings, a completion, and its chunks."""

from lmsp_site.openapi.answers import LMSP, METADATA, TIME
from lmsp_site.openapi.items import (
    CALL_ID,
    COUNT,
    FUNCTION,
    INPUT_PART,
    LOGPROBS,
    REFUSAL,
    STRING,
    TEXT,
    Schema,
    const,
    either,
    listed,
    nullable,
    record,
    ref,
)

_PARTS = listed(INPUT_PART, 1024)
_NOTHING: Schema = {"type": "null"}
_NO_NAME: Schema = {**_NOTHING, "description": "Refused: there is no place for names in what the model reads."}
_REASON = {**const("stop", "length", "tool_calls"), "description": "`length` where the response is `incomplete`."}
_ROLE = const("assistant")
_LOGPROBS = nullable(record({"content": LOGPROBS, "refusal": _NOTHING}))
_CALL_DELTA = record(
    {
        "index": COUNT,
        "id": CALL_ID,
        "type": const("function"),
        "function": record({"name": FUNCTION, "arguments": STRING}, "name"),
    },
    *("id", "type"),
    description="The first one of a call has its id and name, the others add to its arguments.",
)

# `messages`.
MESSAGES: Schema = {**listed(ref("ChatMessage"), 4096), "minItems": 1}

_MESSAGES: Schema = {
    "ChatMessage": either(ref("ChatPromptMessage"), ref("ChatAssistantMessage"), ref("ChatToolMessage")),
    "ChatPromptMessage": record(
        {"role": const("developer", "system", "user"), "content": either(TEXT, _PARTS), "name": _NO_NAME},
        "name",
        description="Models take text only.",
    ),
    "ChatAssistantMessage": record(
        {
            "role": _ROLE,
            "content": either(TEXT, listed(either(INPUT_PART, REFUSAL), 1024), _NOTHING),
            "refusal": nullable(TEXT),
            "tool_calls": nullable(listed(ref("ChatToolCall"))),
            "name": _NO_NAME,
            "audio": {**_NOTHING, "description": "Refused: models take text only."},
            "function_call": {**_NOTHING, "description": "Refused: it is sent in `tool_calls`."},
        },
        *("content", "refusal", "tool_calls", "name", "audio", "function_call"),
        description="It has `content`, a `refusal` or `tool_calls`.",
        anyOf=[
            {"required": [name], "properties": {name: said}}
            for name, said in (
                ("content", {"type": ["string", "array"]}),
                ("refusal", {"type": "string"}),
                ("tool_calls", {"type": "array", "minItems": 1}),
            )
        ],
    ),
    "ChatToolMessage": record(
        {"role": const("tool"), "tool_call_id": CALL_ID, "content": either(TEXT, _PARTS)},
        description="Its call stands before it.",
    ),
    "ChatToolCall": record(
        {"id": CALL_ID, "type": const("function"), "function": record({"name": FUNCTION, "arguments": TEXT})}
    ),
}


def _head(kind: str) -> Schema:
    return {
        "id": {**STRING, "description": "The id of the response, but for its prefix."},
        "object": const(kind),
        "created": TIME,
        "model": STRING,
        "service_tier": STRING,
    }


CHAT: Schema = {
    **_MESSAGES,
    "ChatCompletion": record(
        {
            **_head("chat.completion"),
            "choices": {**listed(ref("ChatChoice"), 1), "minItems": 1},
            "usage": ref("ChatUsage"),
            "metadata": METADATA,
            "lmsp": LMSP,
        },
        "metadata",
        description="A response as the Chat Completions API shows it; `lmsp` is what this service adds.",
    ),
    "ChatChoice": record(
        {"index": const(0), "message": ref("ChatAnswer"), "logprobs": _LOGPROBS, "finish_reason": _REASON}
    ),
    "ChatAnswer": record(
        {
            "role": _ROLE,
            "content": {**nullable(STRING), "description": "Null where there are calls and nothing else."},
            "refusal": _NOTHING,
            "annotations": {**listed({}), "description": "Always empty."},
            "tool_calls": listed(ref("ChatToolCall")),
        },
        "tool_calls",
    ),
    "ChatUsage": record(
        {
            "prompt_tokens": COUNT,
            "completion_tokens": COUNT,
            "total_tokens": COUNT,
            "prompt_tokens_details": record({"cached_tokens": COUNT}),
            "completion_tokens_details": record({"reasoning_tokens": COUNT}),
        },
        description="Token counts, as the engine counted them.",
    ),
    "ChatCompletionChunk": record(
        {
            **_head("chat.completion.chunk"),
            "choices": {**listed(ref("ChatChunkChoice"), 1), "description": "None in the chunk of the usage."},
            "usage": {**nullable(ref("ChatUsage")), "description": "With `include_usage`: null but in the last chunk."},
            "lmsp": {**LMSP, "description": "In the first chunk."},
        },
        *("usage", "lmsp"),
    ),
    "ChatChunkChoice": record(
        {
            "index": const(0),
            "delta": record(
                {"role": _ROLE, "content": STRING, "refusal": _NOTHING, "tool_calls": listed(_CALL_DELTA)},
                *("role", "content", "refusal", "tool_calls"),
            ),
            "logprobs": _LOGPROBS,
            "finish_reason": nullable(_REASON),
        }
    ),
}
