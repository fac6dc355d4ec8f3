"""The task API over plain HTTP; what streams is in ``streaming.py`` and ``consumers.py``."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clients_app.authentication import caller
from clients_app.scopes import RESPONSES_WRITE, TASKS_READ, TASKS_WRITE
from lmsp_site.asgi_http import nonnegative
from lmsp_site.errors import InvalidRequest
from lmsp_site.views import json_body
from tasks_app import cancelling, event_log, idempotency, lookup, pages, responses, serializers, submission
from tasks_app.models import Task
from tasks_app.states import Status


def accepted_object(task: Task) -> dict[str, Any]:
    """Return the body of a 202."""
    return serializers.task_object(task, lookup.position(task))


class TaskList(APIView):
    """POST and GET /v1/tasks."""

    required_scopes = {"GET": TASKS_READ, "POST": TASKS_WRITE}

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
        tasks = Task.objects.of(caller(request)).select_related("response")
        status = request.query_params.get("status")
        if status is not None:
            if status not in list(Status):
                raise InvalidRequest(f"There is no status {status!r}.", param="status")
            tasks = tasks.filter(status=status)
        page = pages.by_id(tasks, request.query_params)
        return Response(pages.list_object([accepted_object(task) for task in page.items], page.has_more))


class TaskDetail(APIView):
    """GET /v1/tasks/{id}."""

    required_scopes = {"GET": TASKS_READ}

    def get(self, request: Request, task_id: str) -> Response:
        """Show the task, its usage and the text it has so far."""
        task = lookup.task(caller(request), task_id)
        shown = accepted_object(task)
        shown["output_text"] = responses.output_text(responses.current(task))
        return Response(shown)


class TaskEvents(APIView):
    """GET /v1/tasks/{id}/events as JSON pages."""

    required_scopes = {"GET": TASKS_READ}

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

    required_scopes = {"POST": TASKS_WRITE}

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


class ResponseDetail(APIView):
    """GET /v1/responses/{id}, where no stream is asked for."""

    required_scopes = {"GET": RESPONSES_WRITE}

    def get(self, request: Request, response_id: str) -> Response:
        """Show the response as it is now."""
        return Response(responses.current(lookup.task_of_response(caller(request), response_id)))


class ResponseCancel(APIView):
    """POST /v1/responses/{id}/cancel."""

    required_scopes = {"POST": RESPONSES_WRITE}

    def post(self, request: Request, response_id: str) -> Response:
        """Cancel the response's task."""
        cancelling.cancel_and_wait([lookup.task_of_response(caller(request), response_id).id])
        return Response(responses.current(lookup.task_of_response(caller(request), response_id)))
