"""What request bodies mean beside the types of their fields: reasons, examples, and what serializers check on top."""

from lmsp_site.openapi.items import Schema
from models_app.defaults import SAMPLING

_MEANINGS: dict[str, str] = {
    "model": "The id of a model; an unknown one is answered with 404.",
    "input": "What is to be answered. Required unless `previous_response_id` is sent.",
    "instructions": "A system message before all others; the next turn does not inherit it.",
    "previous_response_id": "The response whose input and output come before `input`.",
    "truncation": "`auto` leaves out the oldest turns of a prompt that would be too long.",
    "messages": "The conversation, oldest first.",
    "max_completion_tokens": "Without it the generation may run to the end of the context.",
    "verbosity": "Models have no such setting.",
    "reasoning_effort": "Whether the model reasons before it answers, if it can: `none` or `medium`.",
    "include_usage": "One more chunk, without choices, says the usage.",
    "include_obfuscation": "Changes nothing: streams are never padded.",
    "client_name": "What the person who decides is shown: one line of printable characters.",
    "scopes": "What the token should carry; all scopes where it is left out. The person may grant less.",
    "device_code": "From the answer of `POST /v1/pairing`.",
    "max_tokens": "The older name of `max_completion_tokens`.",
    "max_output_tokens": "Without it the generation may run to the end of the context.",
    "seed": "The same seed and request give the same output.",
    "on_restart": "What becomes of the task when a restart of the service finds it unfinished.",
    "expires_at": "Unix seconds: a task that has not finished by then fails with `expired`.",
    "priority": "Whose turn it is in the queue.",
    "service_tier": "`flex` is the priority `batch`; `priority` and `fast` are `interactive`.",
    "store": "`false` deletes task and response once the answer was sent.",
    "stream": "Answer with server-sent events.",
    "background": "Answer with 202 at once.",
    "parallel_tool_calls": "`false`: the output ends after its first call.",
    "max_tool_calls": "The output ends after so many calls.",
    "top_logprobs": "How many of the likeliest tokens to tell with each token of the answer.",
    "logprobs": "Tell how likely each token of the answer was.",
    **{name: setting.meaning for name, setting in SAMPLING.items()},
    **dict.fromkeys(
        ("prompt_cache_key", "safety_identifier"),
        "Shown again; changes nothing.",
    ),
}

# What the methods `validate…` of the serializers refuse.
_CHECKS: Schema = {}
_CHECKS_OF: dict[str, Schema] = {
    "TaskRequest": {
        "stream": {"enum": [False, None], "description": "A task is not streamed by this call; read its events."},
        "background": {"enum": [True, None], "description": "A task runs in the background."},
        "store": {"enum": [True, None], "description": "A task is always stored."},
    },
    "ChatRequest": {
        "on_restart": {"description": f"{_MEANINGS['on_restart']} A stream is not retried."},
        "stream": {"description": "Answer with chunks, as server-sent events."},
        "top_logprobs": {"description": f"{_MEANINGS['top_logprobs']} Needs `logprobs`."},
    },
}


def refine(schemas: Schema) -> None:
    """Add it to the components of request bodies."""
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        for field, described in properties.items():
            if field in _MEANINGS:
                # What is refused says so itself.
                described.setdefault("description", _MEANINGS[field])
            described |= {**_CHECKS.get(field, {}), **_CHECKS_OF.get(name, {}).get(field, {})}
        # A chat completion refuses both.
        if {"input", "previous_response_id"} <= properties.keys() and "messages" not in properties:
            # One that is null is as good as not sent.
            schema["anyOf"] = [
                {"required": [field], "properties": {field: {"not": {"type": "null"}}}}
                for field in ("input", "previous_response_id")
            ]
