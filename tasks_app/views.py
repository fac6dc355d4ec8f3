"""The task API over plain HTTP; what streams is in ``streaming.py`` and ``consumers.py``."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clients_app.authentication import caller
from lmsp_site.asgi_http import nonnegative
from lmsp_site.errors import InvalidRequest
from lmsp_site.views import json_body
from tasks_app import (
    cancelling,
    deleting,
    event_log,
    idempotency,
    inputs,
    lookup,
    pages,
    request_fields,
    responses,
    serializers,
    submission,
    task_lists,
    windows,
)
from tasks_app.models import Task

# The official client writes a list so.
_INCLUDE = ("include", "include[]")


def accepted_object(task: Task) -> dict[str, Any]:
    """Return the body of a 202."""
    return serializers.task_object(task, lookup.position(task))


class TaskList(APIView):
    """POST and GET /v1/tasks."""

    def post(self, request: Request) -> Response:
        """Accept a task; it is on disk before this answers (R1)."""
        body = json_body(request)
        key = idempotency.Claim.of(caller(request), "POST /v1/tasks", request.headers.get("Idempotency-Key"), body)
        fields = serializers.read(serializers.TaskRequest, body)
        accepted = submission.submit(caller(request), fields, foreground=False, key=key, answer=accepted_object)
        if accepted.key:
            answer: dict[str, Any] = accepted.key.result_body or {}
            headers = {"Idempotent-Replayed": "true"}
        else:
            assert accepted.task is not None
            answer, headers = accepted_object(accepted.task), {}
        return Response(answer, status=202, headers={"Location": f"/v1/tasks/{answer['id']}", **headers})

    def get(self, request: Request) -> Response:
        """List the client's tasks, newest first."""
        page = task_lists.page(caller(request), request.query_params)
        data = [accepted_object(task) for task in page.items]
        listed = pages.list_object(data, has_more=page.has_more, first_id=page.first_id, last_id=page.last_id)
        return Response(listed)


class TaskDetail(APIView):
    """GET and DELETE /v1/tasks/{id}."""

    def get(self, request: Request, task_id: str) -> Response:
        """Show the task, its usage and the text it has so far."""
        task = lookup.task(caller(request), task_id)
        shown = accepted_object(task)
        response = responses.current(task)
        shown["output_text"] = responses.output_text(response)
        # It knows how many of the tokens are reasoning, which the task's own columns do not.
        shown["usage"] = response["usage"] or shown["usage"]
        return Response(shown)

    def delete(self, request: Request, task_id: str) -> Response:
        """Delete a finished task with its response."""
        deleting.delete(lookup.task(caller(request), task_id))
        return Response(status=204)


class TaskEvents(APIView):
    """GET /v1/tasks/{id}/events as JSON pages."""

    def get(self, request: Request, task_id: str) -> Response:
        """Return the events after ``after``, up to ``limit``."""
        task = lookup.task(caller(request), task_id)
        after = request.query_params.get("after")
        limit = pages.limit(request.query_params, default=100, most=1000)
        entries = event_log.read(task.id, -1 if after is None else nonnegative(after, "after"), limit + 1)
        shown = entries[:limit]
        return Response(
            {
                "object": "list",
                "data": [{"type": e.type, "sequence_number": e.sequence_number, **e.fields()} for e in shown],
                "first_id": shown[0].sequence_number if shown else None,
                "last_id": shown[-1].sequence_number if shown else None,
                "has_more": len(entries) > limit,
            }
        )


class TaskCancel(APIView):
    """POST /v1/tasks/{id}/cancel."""

    def post(self, request: Request, task_id: str) -> Response:
        """Cancel the task; a finished one answers with its true state, unchanged."""
        cancelling.cancel_and_wait([lookup.task(caller(request), task_id).id])
        return Response(accepted_object(lookup.task(caller(request), task_id)))


class ResponseList(APIView):
    """/v1/responses by any other method than POST, which ``streaming`` answers."""

    @property
    def allowed_methods(self) -> list[str]:
        """What a refusal names."""
        return ["POST", "OPTIONS"]


class ChatCompletionList(ResponseList):
    """/v1/chat/completions by any other method than POST, which ``chat_streaming`` answers."""


class ResponseDetail(APIView):
    """GET /v1/responses/{id}, where no stream is asked for, and DELETE."""

    def get(self, request: Request, response_id: str) -> Response:
        """Show the response as it is now."""
        _check_include(request)
        return Response(responses.current(lookup.task_of_response(caller(request), response_id)))

    def delete(self, request: Request, response_id: str) -> Response:
        """Delete a finished response with its task."""
        deleting.delete(lookup.task_of_response(caller(request), response_id))
        return Response({"id": response_id, "object": "response", "deleted": True})


class ResponseInputItems(APIView):
    """GET /v1/responses/{id}/input_items."""

    def get(self, request: Request, response_id: str) -> Response:
        """List what the response answers, the newest item first: the turns before it, too."""
        pages.refuse_others(request.query_params, {*pages.PARAMETERS, *_INCLUDE})
        _check_include(request)
        window = pages.Window.of(request.query_params, default=20, most=100)
        task = lookup.task_of_response(caller(request), response_id)
        return Response(window.part_of(inputs.of(task.id)))


class ResponseInputTokens(APIView):
    """POST /v1/responses/input_tokens."""

    def post(self, request: Request) -> Response:
        """Count the tokens of a prompt."""
        return Response(windows.count(caller(request), serializers.read(serializers.CountRequest, json_body(request))))


class ResponseCompact(APIView):
    """POST /v1/responses/compact."""

    def post(self, request: Request) -> Response:
        """Give a conversation back in its compact form."""
        fields = serializers.read(serializers.CompactRequest, json_body(request))
        return Response(windows.compact(caller(request), fields))


def _check_include(request: Request) -> None:
    values = [value for name in _INCLUDE for value in request.query_params.getlist(name)]
    if refusal := request_fields.first_refusal(values):
        raise InvalidRequest(f"include: {refusal}", param="include", code="invalid_value")


class ResponseCancel(APIView):
    """POST /v1/responses/{id}/cancel."""

    def post(self, request: Request, response_id: str) -> Response:
        """Cancel the response's task."""
        cancelling.cancel_and_wait([lookup.task_of_response(caller(request), response_id).id])
        return Response(responses.current(lookup.task_of_response(caller(request), response_id)))
