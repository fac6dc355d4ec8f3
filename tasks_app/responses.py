"""The response object of Open Responses, as it is at one moment of its task's life."""

from datetime import datetime
from typing import Any, NamedTuple

from lmsp_site.errors import NotFound
from tasks_app import event_log
from tasks_app.models import Response, Task
from tasks_app.output import Output
from tasks_app.states import FINISHED, RESPONSE_STATUS, Status

# What a request means where it is silent; the echo of a response and the worker go by the same values.
DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "previous_response_id": None,
    "max_output_tokens": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "logit_bias": {},
    "top_logprobs": None,
    "stop": [],
    "seed": 0,
    "background": True,
    "truncation": "disabled",
    "dropped_items": 0,
    "text": {"format": {"type": "text"}},
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "max_tool_calls": None,
    "reasoning": None,
    "reading": None,
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}


class Subject(NamedTuple):
    """What a response object is made of; times in Unix seconds."""

    task_id: str
    response_id: str
    status: str
    model: str
    on_restart: str
    metadata: dict[str, str]
    request: dict[str, Any]
    store: bool
    input_tokens: int
    output_tokens: int
    error_code: str
    error_message: str
    incomplete_reason: str | None
    created_at: int | None
    finished_at: int | None

    @classmethod
    def of(cls, task: Task) -> "Subject":
        """Read it off a task and its response."""
        response = of(task)
        return cls(
            task_id=task.id,
            response_id=response.id,
            status=task.status,
            model=task.model,
            on_restart=task.on_restart,
            metadata=task.metadata,
            request=response.request,
            store=response.store,
            input_tokens=task.input_tokens,
            output_tokens=task.output_tokens,
            error_code=task.error_code,
            error_message=task.error_message,
            incomplete_reason=task.incomplete_reason,
            created_at=unix(task.created_at),
            finished_at=unix(task.finished_at),
        )


def id_for(task_id: str) -> str:
    """Return the id of the response of a task."""
    return task_id.replace("task_", "resp_", 1)


def of(task: Task) -> Response:
    """Return the response row of `task`; a row that came into the database without one gets an empty stand-in."""
    try:
        return task.response
    except Response.DoesNotExist:
        return Response(id=id_for(task.id), task=task, request={})


def build(subject: Subject, output: Output | None = None) -> dict[str, Any]:
    """Return the response object of a task in one state.

    Args:
        subject: as it is, or as it will be after the change that the object accompanies.
        output: what was generated so far; nothing when left out.
    """
    status, incomplete_reason = subject.status, subject.incomplete_reason
    name = "incomplete" if incomplete_reason else RESPONSE_STATUS[status]
    item_status = {"completed": "completed", "in_progress": "in_progress"}.get(name, "incomplete")
    request = DEFAULTS | subject.request
    return {
        "id": subject.response_id,
        "object": "response",
        "created_at": subject.created_at,
        "completed_at": subject.finished_at if status == Status.COMPLETED else None,
        "status": name,
        "incomplete_details": {"reason": incomplete_reason} if incomplete_reason else None,
        "model": subject.model,
        "previous_response_id": request["previous_response_id"],
        "instructions": request["instructions"],
        "output": output.items(item_status) if output else [],
        "error": {"code": subject.error_code, "message": subject.error_message} if subject.error_code else None,
        "tools": request["tools"],
        "tool_choice": request["tool_choice"],
        "truncation": request["truncation"],
        "parallel_tool_calls": request["parallel_tool_calls"],
        "text": request["text"],
        "top_p": request["top_p"],
        "presence_penalty": request["presence_penalty"],
        "frequency_penalty": request["frequency_penalty"],
        "top_logprobs": request["top_logprobs"] or 0,
        "temperature": request["temperature"],
        "reasoning": request["reasoning"],
        "usage": usage(subject, output) if status in FINISHED else None,
        "max_output_tokens": request["max_output_tokens"],
        "max_tool_calls": request["max_tool_calls"],
        "store": subject.store,
        "background": request["background"],
        "service_tier": request["service_tier"],
        "metadata": subject.metadata,
        "safety_identifier": request["safety_identifier"],
        "prompt_cache_key": request["prompt_cache_key"],
        "lmsp": {
            "task_id": subject.task_id,
            "on_restart": subject.on_restart,
            "seed": request["seed"],
            "dropped_items": request["dropped_items"],
        },
    }


def current(task: Task) -> dict[str, Any]:
    """Return the response of `task` as it is now: what its terminal event has stored, or what the log holds so far.

    Raises:
        NotFound: it was deleted meanwhile (``response_not_found``).
    """
    if task.finished:
        stored = event_log.last(task.id)
        if stored and stored.is_terminal:
            response: dict[str, Any] = stored.fields()["response"]
            return response
        if not Task.objects.kept().filter(pk=task.pk).exists():
            raise NotFound(f"The response of {task.id} was deleted.", code="response_not_found")
    return build(Subject.of(task), Output.of(task.id))


def usage(counted: Subject | Task, output: Output | None = None) -> dict[str, Any]:
    """Return token counts, as the engine counted them."""
    reasoning_tokens = output.reasoning_tokens if output else 0
    return usage_object(counted.input_tokens, counted.output_tokens, reasoning_tokens)


def usage_object(input_tokens: int, output_tokens: int, reasoning_tokens: int = 0) -> dict[str, Any]:
    """Return the API's object of token counts."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def output_text(response: dict[str, Any]) -> str:
    """Return the text of a response's messages."""
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    )


def output_logprobs(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is known of the tokens of a response's messages; nothing where nobody asked."""
    return [
        said
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
        for said in part["logprobs"]
    ]


def unix(moment: datetime | None) -> int | None:
    """Return whole Unix seconds, as the API has them."""
    return int(moment.timestamp()) if moment else None
