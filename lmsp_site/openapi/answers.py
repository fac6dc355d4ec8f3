"""The objects of the API in JSON Schema: what answers and events hold."""

from collections.abc import Sequence

from lmsp_site.models import RestartPolicy
from lmsp_site.openapi.items import (
    COUNT,
    INTEGER,
    LOGPROBS,
    STRING,
    Schema,
    const,
    either,
    listed,
    nullable,
    record,
    ref,
)
from lmsp_site.openapi.tools import SHOWN_CHOICE, SHOWN_TOOLS
from models_app import loading
from tasks_app.models import Priority
from tasks_app.states import RESPONSE_STATUS, STATE_ANNOUNCED_BY, EventType, Status

_ANYTHING: Schema = {"type": "object", "additionalProperties": True}
TIME: Schema = {"type": "integer", "description": "Unix seconds."}
_MAYBE_TIME: Schema = {"type": ["integer", "null"], "description": "Unix seconds."}
_MAYBE_STRING: Schema = {"type": ["string", "null"]}
_MAYBE_INTEGER: Schema = {"type": ["integer", "null"]}
_NUMBER: Schema = {"type": "number"}
_BOOLEAN: Schema = {"type": "boolean"}
METADATA: Schema = {"type": "object", "additionalProperties": STRING}
_POLICY = const(*RestartPolicy.values)
LMSP = record({"task_id": STRING, "on_restart": _POLICY, "seed": INTEGER, "dropped_items": COUNT})
_FAILURE = nullable(record({"code": STRING, "message": STRING}))
_INCOMPLETE = nullable(record({"reason": STRING}))
_FORMAT = either(
    record({"type": const("text", "json_object")}),
    record(
        {
            "type": const("json_schema"),
            "name": STRING,
            "description": _MAYBE_STRING,
            "schema": _ANYTHING,
            "strict": _BOOLEAN,
        }
    ),
)


def _list_of(entry: Schema, cursor: Schema) -> Schema:
    return record(
        {
            "object": const("list"),
            "data": listed(entry),
            "first_id": cursor,
            "last_id": {**cursor, "description": "The cursor to go on with."},
            "has_more": _BOOLEAN,
        }
    )


def _event(types: Sequence[EventType], fields: Schema, *optional: str) -> Schema:
    return record({"type": const(*types), "sequence_number": COUNT, **fields}, *optional)


_PLACE: Schema = {"item_id": STRING, "output_index": COUNT, "content_index": COUNT}

_OF_CALL: Schema = {"item_id": STRING, "output_index": COUNT}
_OF_SUMMARY: Schema = {**_OF_CALL, "summary_index": COUNT}
_OUTPUT_ITEM = either(ref("Message"), ref("FunctionCall"), ref("Reasoning"))

_EVENTS: Schema = {
    "StateEvent": {
        **_event(
            (EventType.CREATED, *STATE_ANNOUNCED_BY),
            {
                "response": ref("Response"),
                "attempt": {**INTEGER, "description": "Which run of the task begins."},
                "resumed": {**_BOOLEAN, "description": "The run goes on where an earlier one was cut off."},
                "exact": {**_BOOLEAN, "description": "It goes on token for token as it would have."},
            },
            *("attempt", "resumed", "exact"),
        ),
        "description": "The task has entered a state. `response.queued` with a next `attempt` takes back all output.",
    },
    "OutputItemEvent": _event(
        (EventType.OUTPUT_ITEM_ADDED, EventType.OUTPUT_ITEM_DONE), {"output_index": COUNT, "item": _OUTPUT_ITEM}
    ),
    "ContentPartEvent": _event(
        (EventType.CONTENT_PART_ADDED, EventType.CONTENT_PART_DONE), {**_PLACE, "part": ref("OutputText")}
    ),
    "TextDeltaEvent": _event([EventType.OUTPUT_TEXT_DELTA], {**_PLACE, "delta": STRING, "logprobs": LOGPROBS}),
    "TextDoneEvent": _event([EventType.OUTPUT_TEXT_DONE], {**_PLACE, "text": STRING, "logprobs": LOGPROBS}),
    "ReasoningPartEvent": _event(
        (EventType.REASONING_SUMMARY_PART_ADDED, EventType.REASONING_SUMMARY_PART_DONE),
        {**_OF_SUMMARY, "part": record({"type": const("summary_text"), "text": STRING})},
    ),
    "ReasoningDeltaEvent": _event([EventType.REASONING_SUMMARY_TEXT_DELTA], {**_OF_SUMMARY, "delta": STRING}),
    "ReasoningDoneEvent": _event([EventType.REASONING_SUMMARY_TEXT_DONE], {**_OF_SUMMARY, "text": STRING}),
    "ArgumentsDeltaEvent": _event([EventType.FUNCTION_CALL_ARGUMENTS_DELTA], {**_OF_CALL, "delta": STRING}),
    "ArgumentsDoneEvent": _event([EventType.FUNCTION_CALL_ARGUMENTS_DONE], {**_OF_CALL, "arguments": STRING}),
}

COMPONENTS: Schema = {
    "Error": record(
        {
            "error": record(
                {
                    "message": {**STRING, "description": "For people; it may change."},
                    "type": STRING,
                    "param": {**_MAYBE_STRING, "description": "The field or parameter that is to blame."},
                    "code": {**_MAYBE_STRING, "description": "For programs."},
                }
            )
        },
        description="The envelope of every error.",
    ),
    "Usage": record(
        {
            "input_tokens": COUNT,
            "input_tokens_details": record({"cached_tokens": COUNT}),
            "output_tokens": COUNT,
            "output_tokens_details": record({"reasoning_tokens": COUNT}),
            "total_tokens": COUNT,
        },
        description="Token counts, as the engine counted them.",
    ),
    "Task": record(
        {
            "id": STRING,
            "object": const("task"),
            "status": const(*Status),
            "response_id": STRING,
            "model": STRING,
            "on_restart": _POLICY,
            "priority": const(*(priority.name.lower() for priority in Priority)),
            "attempt": {**COUNT, "description": "How often it was claimed by a worker."},
            "position": {**_MAYBE_INTEGER, "description": "Place in the queue, from 1."},
            "progress": {
                **nullable(_ANYTHING),
                "description": "How far loading, prefill or replay has come.",
            },
            "error": _FAILURE,
            "usage": ref("Usage"),
            "last_sequence_number": {**INTEGER, "description": "The number of its last event."},
            "metadata": METADATA,
            "created_at": TIME,
            "started_at": _MAYBE_TIME,
            "finished_at": _MAYBE_TIME,
            "expires_at": _MAYBE_TIME,
            "incomplete_details": {**_INCOMPLETE, "description": "Of finished tasks."},
            "output_text": {**STRING, "description": "The text so far; where one task is shown."},
        },
        *("incomplete_details", "output_text"),
    ),
    "TaskList": _list_of(ref("Task"), _MAYBE_STRING),
    "Event": {
        **either(*map(ref, _EVENTS)),
        "description": "An entry of a task's log. Numbers start at 0 and have no gap; the terminal event is the last.",
    },
    "EventList": _list_of(ref("Event"), _MAYBE_INTEGER),
    **_EVENTS,
    "Response": record(
        {
            "id": STRING,
            "object": const("response"),
            "created_at": TIME,
            "completed_at": _MAYBE_TIME,
            "status": const(*sorted({*RESPONSE_STATUS.values(), "incomplete"})),
            "incomplete_details": _INCOMPLETE,
            "model": STRING,
            "previous_response_id": _MAYBE_STRING,
            "instructions": _MAYBE_STRING,
            "output": listed(_OUTPUT_ITEM),
            "error": _FAILURE,
            "tools": SHOWN_TOOLS,
            "tool_choice": SHOWN_CHOICE,
            "truncation": const("auto", "disabled"),
            "parallel_tool_calls": _BOOLEAN,
            "text": record({"format": _FORMAT, "verbosity": const("medium")}, "verbosity"),
            "top_p": _NUMBER,
            "presence_penalty": _NUMBER,
            "frequency_penalty": _NUMBER,
            "top_logprobs": COUNT,
            "temperature": _NUMBER,
            "reasoning": nullable(record({"effort": _MAYBE_STRING, "summary": _MAYBE_STRING})),
            "usage": {**nullable(ref("Usage")), "description": "Of finished responses."},
            "max_output_tokens": _MAYBE_INTEGER,
            "max_tool_calls": _MAYBE_INTEGER,
            "store": _BOOLEAN,
            "background": _BOOLEAN,
            "service_tier": STRING,
            "metadata": METADATA,
            "safety_identifier": _MAYBE_STRING,
            "prompt_cache_key": _MAYBE_STRING,
            "lmsp": LMSP,
        },
        description="The response object of Open Responses; `lmsp` is what this service adds.",
    ),
    "DeletedResponse": record({"id": STRING, "object": const("response"), "deleted": {"const": True}}),
    "ItemList": _list_of(ref("Item"), _MAYBE_STRING),
    "InputTokens": record({"object": const("response.input_tokens"), "input_tokens": COUNT}),
    "CompactedConversation": record(
        {
            "id": STRING,
            "object": const("response.compaction"),
            "created_at": TIME,
            "output": listed(either(ref("Message"), ref("Compaction"))),
            "usage": ref("Usage"),
        },
        description="Its `output`, as input, is the conversation that went in.",
    ),
    "Pairing": record(
        {
            "device_code": {**STRING, "description": "What the program polls with; a secret."},
            "user_code": {"type": "string", "pattern": "^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$"},
            "verification_uri": {**STRING, "description": "The page where a person types the user code."},
            "verification_uri_complete": {**STRING, "description": "The same page with the code filled in."},
            "expires_in": {**COUNT, "description": "Seconds for which both codes are good."},
            "interval": {**COUNT, "description": "Seconds that have to lie between two polls."},
        }
    ),
    "Token": record(
        {
            "access_token": STRING,
            "token_type": const("Bearer"),
            "scope": {**STRING, "description": "What was granted, with blanks between the scopes."},
            "client_id": STRING,
        }
    ),
    "RotatedToken": record(
        {
            "access_token": STRING,
            "token_type": const("Bearer"),
            "scope": STRING,
            "client_id": STRING,
            "previous_token_until": {**TIME, "description": "Until then the token before this one is good, too."},
        }
    ),
    "Client": record(
        {
            "id": STRING,
            "object": const("client"),
            "name": STRING,
            "scopes": listed(STRING),
            "created_at": TIME,
            "expires_at": _MAYBE_TIME,
            "last_used_at": _MAYBE_TIME,
            "previous_token_until": _MAYBE_TIME,
            "quotas": {
                **record(
                    dict.fromkeys(
                        ("running", "queued", "requests_per_minute", "tokens_per_day", "stored_bytes"),
                        record({"limit": _MAYBE_INTEGER, "used": _MAYBE_INTEGER, "remaining": _MAYBE_INTEGER}),
                    )
                ),
                "description": "Without a limit `limit` is null; requests are counted only where they have one.",
            },
        }
    ),
    "UsageList": _list_of(
        record(
            {
                "object": const("usage"),
                "day": {"type": "string", "format": "date"},
                "model": _MAYBE_STRING,
                "tasks": {**COUNT, "description": "That have ended."},
                "input_tokens": COUNT,
                "output_tokens": COUNT,
                "total_tokens": COUNT,
                "run_seconds": {**_NUMBER, "description": "From the first claim of each task to its end."},
            }
        ),
        _MAYBE_STRING,
    ),
    "Model": record(
        {
            "id": STRING,
            "object": const("model"),
            "created": TIME,
            "owned_by": STRING,
            "digest": {
                **STRING,
                "description": "SHA-256 of the file; of several, of the lines that `sha256sum` prints.",
            },
            "size_bytes": COUNT,
            "format": STRING,
            "engine": STRING,
            "context_length": {**_MAYBE_INTEGER, "description": "Tokens of one task, prompt and output together."},
            "trained_context_length": {**COUNT, "description": "Tokens, as its files say; 0 where they do not."},
            "architecture": STRING,
            "parameter_count": {**_MAYBE_INTEGER, "description": "Weights, however few bits each has."},
            "quantization": _MAYBE_STRING,
            "license": _MAYBE_STRING,
            "base_model": _MAYBE_STRING,
            "has_chat_template": _BOOLEAN,
            "files": listed(record({"name": STRING, "size_bytes": COUNT, "digest": STRING})),
            "aliases": {**listed(STRING), "description": "What requests may call it beside its id."},
            "sampling": {
                "type": "object",
                "additionalProperties": _NUMBER,
                "description": "What a request means that does not say how tokens are chosen.",
            },
            "state": {
                **const(*loading.STATES),
                "description": "`waiting` for room, `loading`, `ready`; `unavailable` while no engine can be started; "
                "`corrupt` or `missing` files, with which its tasks fail.",
            },
            "memory_bytes": {**_MAYBE_INTEGER, "description": "What its engine's process has in memory."},
            "tokens_per_second": {
                **nullable(_NUMBER),
                "description": "Of the output of its tasks, on average.",
            },
        }
    ),
    "ModelList": _list_of(ref("Model"), _MAYBE_STRING),
    "Discovery": record(
        {
            "protocol": const("lmsp"),
            "protocol_version": STRING,
            "service_id": {"type": "string", "format": "uuid"},
            "name": STRING,
            "software": record({"name": STRING, "version": STRING}),
            "endpoints": {"type": "object", "additionalProperties": STRING},
            "capabilities": record(
                {
                    "restart_policies": listed(_POLICY),
                    "default_on_restart": _POLICY,
                    "event_transports": listed(STRING),
                    "websockets": listed(STRING),
                    "idempotency_keys": _BOOLEAN,
                    "background": _BOOLEAN,
                }
            ),
            "authentication": record({"schemes": listed(STRING)}),
        }
    ),
    "Health": record({"status": const("ok")}),
    "Readiness": record(
        {
            "status": const("ready", "not_ready"),
            "checks": {
                "type": "object",
                "additionalProperties": record({"ok": _BOOLEAN, "detail": _MAYBE_STRING}),
            },
        }
    ),
}
