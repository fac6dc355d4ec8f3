"""What each call does, takes and answers, by the view that stands for its address.

The views say nothing of it themselves: some of their calls are answered in front of them, by ``tasks_app.streaming``.
"""

from collections.abc import Sequence
from http import HTTPMethod
from typing import Any

from drf_spectacular.extensions import OpenApiViewExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiRequest, OpenApiResponse, extend_schema
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from clients_app.pairing import serializers as pairing_bodies
from clients_app.pairing import views as pairing
from lmsp_site import health
from lmsp_site.openapi import parameters
from lmsp_site.openapi.items import Schema, ref
from lmsp_site.openapi.parameters import answered, cursor, header, query
from models_app import views as models
from tasks_app import chat_requests, own_client, serializers
from tasks_app import views as tasks
from tasks_app.metrics.view import Metrics
from tasks_app.states import Status

GET, POST, DELETE = HTTPMethod.GET, HTTPMethod.POST, HTTPMethod.DELETE
_JSON, _EVENT_STREAM = "application/json", "text/event-stream"
_TEXT: Schema = {"type": "string"}
_DAY: Schema = {"type": "string", "format": "date"}
_SERVICE, _PAIRING, _MODELS, _TASKS = "Service", "Pairing", "Models", "Tasks"
_RESPONSES, _CHAT, _CLIENTS = "Responses", "Chat completions", "Clients"
_LAST_EVENT_ID: Schema = {"type": "string", "pattern": "^[0-9]{1,15}$"}
_FRAMES = "Server-sent events"
# What a schema of this media type describes, the body, a frame or its data, is not agreed on: it is said in words.
_STREAM: Schema = {"description": "Frames whose `data` is an `Event`, and `data: [DONE]` at the end."}
_CHUNKS: Schema = {
    "description": "Frames whose `data` is a `ChatCompletionChunk`, and `data: [DONE]` at the end. Where there is no "
    "completion the frame before it is an `Error`."
}

_EXAMPLE = {"model": "smollm2-135m-instruct", "input": "Write a haiku about the sea.", "max_output_tokens": 64}
_TASK_EXAMPLE = {**_EXAMPLE, "on_restart": "resume", "metadata": {"project": "poems"}}
_CHAT_EXAMPLE = {
    "model": "smollm2-135m-instruct",
    "messages": [{"role": "user", "content": "Write a haiku about the sea."}],
    "max_completion_tokens": 64,
}
_PAIRING_EXAMPLE = {"client_name": "Editor on my laptop", "scopes": ["models:read", "responses:write"]}
_POLL_EXAMPLE = {
    "device_code": "6QdZzVnqCkHDBYoWkm0gkN-hTkM5dKnWvRvkYkMSvWQ",
    "grant_type": pairing_bodies.GRANT_TYPE,
}
_SEALED_EXAMPLE = {"model": "smollm2-135m-instruct", "input": "My name is Ada."}


def _json(name: str, description: str) -> OpenApiResponse:
    return OpenApiResponse(ref(name), description)


def _text(description: str) -> OpenApiResponse:
    return OpenApiResponse(_TEXT, description)


def _body(serializer: type[BaseSerializer[Any]], example: dict[str, Any]) -> dict[str, OpenApiRequest]:
    shown = OpenApiExample("Example", value=example, request_only=True)
    return {_JSON: OpenApiRequest(serializer, examples=[shown])}


class _Call:
    """One call: how ``extend_schema`` is told about it.

    Attributes:
        answers: bodies of the answers by status, or by status and media type.
        errors: those that do not follow from how the call is made, see ``openapi.errors``.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        description: str = "",
        *,
        answers: dict[Any, OpenApiResponse],
        errors: Sequence[int] = (),
        parameters: Sequence[OpenApiParameter] = (),
        request: Any = None,
    ) -> None:
        self._known = {
            "operation_id": name,
            "summary": summary,
            "description": description,
            "parameters": parameters,
            "request": request,
            "responses": {**answers, **dict.fromkeys(errors, OpenApiResponse(None, "-"))},
        }

    def handler(self, tag: str) -> Any:
        """Return a method that is never called and carries the description."""

        def described(_view: APIView, _request: Any) -> None:
            raise NotImplementedError

        return extend_schema(**self._known, tags=[tag])(described)


# What every creation can come to beside the errors of its form.
_CREATING = (404, 409, 422, 503, 507)

_CALLS: dict[type[APIView], tuple[str, dict[HTTPMethod, _Call]]] = {
    health.Discovery: (
        _SERVICE,
        {
            GET: _Call(
                "discover",
                "Who the service is and what it can do",
                answers={200: _json("Discovery", "Identity, versions, endpoints and capabilities.")},
                errors=(503,),
            )
        },
    ),
    health.Live: (
        _SERVICE,
        {GET: _Call("health", "Whether the service lives", answers={200: _json("Health", "It does.")})},
    ),
    health.Ready: (
        _SERVICE,
        {
            GET: _Call(
                "readiness",
                "Whether work can be accepted and run",
                answers={
                    200: _json("Readiness", "It can."),
                    503: _json("Readiness", "It cannot; `checks` says which of database, runner and disk hinders it."),
                },
            )
        },
    ),
    Metrics: (
        _SERVICE,
        {
            GET: _Call(
                "metrics",
                "The service in numbers",
                "In the text format of Prometheus or as OpenMetrics, by `Accept`.",
                answers={
                    (200, "text/plain"): _text("The metrics."),
                    (200, "application/openmetrics-text"): _text("The metrics."),
                },
            )
        },
    ),
    pairing.PairingList: (
        _PAIRING,
        {
            POST: _Call(
                "startPairing",
                "Ask for a token",
                "The device grant of RFC 8628, in JSON. Show `user_code` and `verification_uri` to a person, and poll "
                "`/v1/pairing/token` with `device_code`.",
                request=_body(pairing_bodies.PairingRequest, _PAIRING_EXAMPLE),
                answers={200: _json("Pairing", "The codes.")},
                errors=(429, 503, 507),
            )
        },
    ),
    pairing.PairingToken: (
        _PAIRING,
        {
            POST: _Call(
                "collectToken",
                "Collect the token, once a person has approved",
                "Until then 400 with `authorization_pending`; with `slow_down` where less than the interval lies "
                "between two polls, which makes it 5 seconds longer. `access_denied`, `expired_token` and "
                "`invalid_grant` are final.",
                request=_body(pairing_bodies.TokenRequest, _POLL_EXAMPLE),
                answers={200: _json("Token", "The token, which is shown this once.")},
                errors=(503, 507),
            )
        },
    ),
    models.ModelList: (
        _MODELS,
        {
            GET: _Call(
                "listModels", "List the models that tasks can name", answers={200: _json("ModelList", "All of them.")}
            )
        },
    ),
    models.ModelDetail: (
        _MODELS,
        {
            GET: _Call(
                "showModel",
                "Show a model",
                parameters=[parameters.MODEL],
                answers={200: _json("Model", "The model.")},
            )
        },
    ),
    tasks.TaskList: (
        _TASKS,
        {
            POST: _Call(
                "createTask",
                "Create a task",
                "It is on disk before this answers, and runs in the background. Follow its events, or show it.",
                parameters=[
                    parameters.IDEMPOTENCY_KEY,
                    answered("Location", "Where the task is.", 202),
                    answered("Idempotent-Replayed", parameters.REPLAYED, 202),
                ],
                request=_body(serializers.TaskRequest, _TASK_EXAMPLE),
                answers={202: _json("Task", "The task, accepted.")},
                errors=_CREATING,
            ),
            GET: _Call(
                "listTasks",
                "List one's own tasks",
                "Newest first unless told otherwise. A page looks through at most 10,000 tasks: a shorter one that "
                "has `has_more` is gone on from with its `last_id`. Parameters that are not known are refused.",
                parameters=[
                    *parameters.PAGE,
                    query(
                        "status",
                        {"type": "array", "items": {"type": "string", "enum": list(Status)}},
                        "One or several, repeated or as `a,b`.",
                    ),
                    query("model", _TEXT, "The model's id."),
                    OpenApiParameter(
                        "metadata",
                        {"type": "object", "additionalProperties": {"type": "string"}},
                        OpenApiParameter.QUERY,
                        description="`metadata[KEY]=value`; of several all must be equal.",
                        style="deepObject",
                        explode=True,
                    ),
                    *(
                        query(
                            f"created_{side}",
                            {"type": "integer", "minimum": 0, "maximum": 10**12 - 1},
                            "Unix seconds, exclusive.",
                        )
                        for side in ("after", "before")
                    ),
                ],
                answers={200: _json("TaskList", "A page of tasks.")},
            ),
        },
    ),
    tasks.TaskDetail: (
        _TASKS,
        {
            GET: _Call(
                "showTask",
                "Show a task",
                parameters=[parameters.TASK],
                answers={200: _json("Task", "The task with the text it has so far.")},
            ),
            DELETE: _Call(
                "deleteTask",
                "Delete a finished task",
                "Its response goes too. One that has not finished must be cancelled first.",
                parameters=[parameters.TASK],
                answers={204: OpenApiResponse(None, "It is gone.")},
                errors=(409, 507),
            ),
        },
    ),
    tasks.TaskEvents: (
        _TASKS,
        {
            GET: _Call(
                "listTaskEvents",
                "Read or follow a task's events",
                "A page, or with `Accept: text/event-stream` the log from the cursor on, followed until its terminal "
                "event and `data: [DONE]`; each frame's `id` is the sequence number, its `data` an `Event`. "
                "The same address is a websocket that sends one `Event` a message.",
                parameters=[
                    parameters.TASK,
                    cursor("after", "The number of the last event that is known."),
                    parameters.limit(100, 1000),
                    header("Last-Event-ID", _LAST_EVENT_ID, "For streams: stands for `after`, and before it."),
                ],
                answers={
                    (200, _JSON): _json("EventList", f"A page of events. {_FRAMES} where they are accepted."),
                    (200, _EVENT_STREAM): OpenApiResponse(_STREAM, _FRAMES),
                },
            )
        },
    ),
    tasks.TaskCancel: (
        _TASKS,
        {
            POST: _Call(
                "cancelTask",
                "Cancel a task",
                "Waits up to two seconds for its end. A finished task is answered as it is.",
                parameters=[parameters.TASK],
                answers={200: _json("Task", "The task.")},
                errors=(507,),
            )
        },
    ),
    tasks.ResponseList: (
        _RESPONSES,
        {
            POST: _Call(
                "createResponse",
                "Create a response",
                "As in the Responses API: waits for the end, streams the events (`stream`), or answers at once "
                "(`background`). A caller who hangs up cancels it, unless the request had an `Idempotency-Key`. "
                "The same address is a websocket that takes `response.create` frames.",
                parameters=[
                    parameters.IDEMPOTENCY_KEY,
                    answered("Location", "Where the response is.", 202),
                    answered("Idempotent-Replayed", parameters.REPLAYED, 200, 202),
                ],
                request=_body(serializers.ResponseRequest, _EXAMPLE),
                answers={
                    (200, _JSON): _json("Response", f"The response, finished. {_FRAMES} with `stream`."),
                    (200, _EVENT_STREAM): OpenApiResponse(_STREAM, _FRAMES),
                    202: _json("Response", "The response at its birth, with `background`."),
                },
                errors=_CREATING,
            )
        },
    ),
    tasks.ChatCompletionList: (
        _CHAT,
        {
            POST: _Call(
                "createChatCompletion",
                "Create a chat completion",
                "Another face of `POST /v1/responses`, for clients that speak nothing newer: the same task and "
                "response, which the other calls show, cancel and go on from. Waits for the end, or streams chunks "
                "(`stream`). A caller who hangs up cancels it, unless the request had an `Idempotency-Key`.",
                parameters=[
                    parameters.IDEMPOTENCY_KEY,
                    answered("Idempotent-Replayed", parameters.REPLAYED, 200),
                ],
                request=_body(chat_requests.ChatRequest, _CHAT_EXAMPLE),
                answers={
                    (200, _JSON): _json("ChatCompletion", f"The completion. {_FRAMES} with `stream`."),
                    (200, _EVENT_STREAM): OpenApiResponse(_CHUNKS, _FRAMES),
                },
                errors=_CREATING,
            )
        },
    ),
    tasks.ResponseDetail: (
        _RESPONSES,
        {
            GET: _Call(
                "showResponse",
                "Show a response, or follow its events",
                parameters=[
                    parameters.RESPONSE,
                    query("stream", {"enum": ["true", "false"]}, "`true`: replay the events and follow them."),
                    cursor("starting_after", "For streams: the number of the last event that is known."),
                    parameters.INCLUDE,
                ],
                answers={
                    (200, _JSON): _json("Response", f"The response as it is now. {_FRAMES} with `stream`."),
                    (200, _EVENT_STREAM): OpenApiResponse(_STREAM, _FRAMES),
                },
            ),
            DELETE: _Call(
                "deleteResponse",
                "Delete a finished response",
                "Its task goes too; later turns keep what it said.",
                parameters=[parameters.RESPONSE],
                answers={200: _json("DeletedResponse", "It is gone.")},
                errors=(409, 507),
            ),
        },
    ),
    tasks.ResponseCancel: (
        _RESPONSES,
        {
            POST: _Call(
                "cancelResponse",
                "Cancel a response",
                parameters=[parameters.RESPONSE],
                answers={200: _json("Response", "The response.")},
                errors=(507,),
            )
        },
    ),
    tasks.ResponseInputItems: (
        _RESPONSES,
        {
            GET: _Call(
                "listInputItems",
                "List what a response answers",
                "The whole conversation before it, newest item first unless told otherwise.",
                parameters=[parameters.RESPONSE, *parameters.PAGE, parameters.INCLUDE],
                answers={200: _json("ItemList", "A page of items.")},
            )
        },
    ),
    tasks.ResponseInputTokens: (
        _RESPONSES,
        {
            POST: _Call(
                "countInputTokens",
                "Count the tokens of a prompt",
                "What a creation would count; also where it would be too long.",
                request=_body(serializers.CountRequest, _SEALED_EXAMPLE),
                answers={200: _json("InputTokens", "The number.")},
                errors=(404, 409),
            )
        },
    ),
    tasks.ResponseCompact: (
        _RESPONSES,
        {
            POST: _Call(
                "compactConversation",
                "Give a conversation back in its compact form",
                "No model is asked, nothing is lost and nothing is stored.",
                request=_body(serializers.CompactRequest, _SEALED_EXAMPLE),
                answers={200: _json("CompactedConversation", "The messages of the user, and all of it, sealed.")},
                errors=(404, 409),
            )
        },
    ),
    own_client.OwnClient: (
        _CLIENTS,
        {
            GET: _Call(
                "showOwnClient",
                "Show what this token's client is, may do and has used",
                answers={200: _json("Client", "The client.")},
            ),
            DELETE: _Call(
                "revokeOwnClient",
                "Revoke this token's client, for good",
                "What it has open ends within 5 seconds, what it left unfinished is cancelled.",
                answers={204: OpenApiResponse(None, "No token of its is good any more.")},
                errors=(507,),
            ),
        },
    ),
    own_client.OwnToken: (
        _CLIENTS,
        {
            POST: _Call(
                "rotateOwnToken",
                "Replace the token",
                "The new one is good at once; the current one for `overlap_seconds` more, an older one no longer. A "
                "caller that has lost the answer may ask again with the token that it has. There need be no body.",
                request=_body(own_client.RotateRequest, {"overlap_seconds": 3600}),
                answers={200: _json("RotatedToken", "The token, which is shown this once.")},
                errors=(507,),
            )
        },
    ),
    own_client.OwnUsage: (
        _CLIENTS,
        {
            GET: _Call(
                "listOwnUsage",
                "List what this token's client has had",
                "By day, the newest first; days are those of UTC on which tasks have ended. Days without any are left "
                "out.",
                parameters=[
                    query("from", _DAY, "The first day; 30 days in all where it is left out."),
                    query("to", _DAY, "The last day; today where it is left out, and within 366 days of the first."),
                    query("model", _TEXT, "Of one model alone."),
                    query("group_by", {"enum": ["day", "model"]}, "`model`: an entry for each model.", default="day"),
                ],
                answers={200: _json("UsageList", "What it has had.")},
            )
        },
    ),
}


class Described(OpenApiViewExtension):
    """Every view whose calls are described here."""

    target_class = APIView
    match_subclasses = True

    def view_replacement(self) -> type[APIView]:
        """Return a view whose methods carry their descriptions."""
        view: type[APIView] = self.target
        if view not in _CALLS:
            return view
        tag, calls = _CALLS[view]
        methods = {method.lower(): call.handler(tag) for method, call in calls.items()}
        return type(view.__name__, (view,), methods)
