"""Addresses of tasks and responses, and of a client's own record."""

from channels.routing import URLRouter
from django.urls import path, re_path

from lmsp_site.asgi_http import App, Scope, header, query
from tasks_app import chat_streaming, own_client, streaming, views
from tasks_app.board.sockets import DashboardSocket, ModelsSocket, TaskRowsSocket, TaskSocket
from tasks_app.consumers import NowhereConsumer, TaskEventsConsumer
from tasks_app.events_socket import EventsConsumer
from tasks_app.responses_socket import ResponsesConsumer

urlpatterns = [
    path("v1/tasks", views.TaskList.as_view(), name="tasks"),
    path("v1/tasks/<str:task_id>", views.TaskDetail.as_view(), name="task"),
    path("v1/tasks/<str:task_id>/events", views.TaskEvents.as_view(), name="task-events"),
    path("v1/tasks/<str:task_id>/cancel", views.TaskCancel.as_view(), name="task-cancel"),
    path("v1/chat/completions", views.ChatCompletionList.as_view(), name="chat-completions"),
    path("v1/responses", views.ResponseList.as_view(), name="responses"),
    path("v1/responses/compact", views.ResponseCompact.as_view(), name="response-compact"),
    path("v1/responses/input_tokens", views.ResponseInputTokens.as_view(), name="response-input-tokens"),
    path("v1/responses/<str:response_id>", views.ResponseDetail.as_view(), name="response"),
    path("v1/responses/<str:response_id>/cancel", views.ResponseCancel.as_view(), name="response-cancel"),
    path("v1/responses/<str:response_id>/input_items", views.ResponseInputItems.as_view(), name="response-input-items"),
    path("v1/clients/me", own_client.OwnClient.as_view(), name="own-client"),
    path("v1/clients/me/rotate", own_client.OwnToken.as_view(), name="own-token"),
    path("v1/clients/me/usage", own_client.OwnUsage.as_view(), name="own-usage"),
]

websocket_urlpatterns = URLRouter(
    [
        re_path(r"^v1/events$", EventsConsumer.as_asgi()),
        re_path(r"^v1/responses$", ResponsesConsumer.as_asgi()),
        re_path(r"^v1/tasks/(?P<task_id>[^/]+)/events$", TaskEventsConsumer.as_asgi()),
        re_path(r"^admin/live/dashboard$", DashboardSocket.as_asgi()),
        re_path(r"^admin/live/models$", ModelsSocket.as_asgi()),
        re_path(r"^admin/live/tasks$", TaskRowsSocket.as_asgi()),
        re_path(r"^admin/live/tasks/(?P<task_id>[^/]+)$", TaskSocket.as_asgi()),
        re_path(r"", NowhereConsumer.as_asgi()),
    ]
)


def streaming_app(scope: Scope) -> App | None:
    """Return the app for a call that waits or streams, with ``path_params`` set; ``None`` for all others."""
    match scope["method"], scope["path"].split("/"):
        case "POST", ["", "v1", "responses"]:
            return streaming.create_response
        case "POST", ["", "v1", "chat", "completions"]:
            return chat_streaming.create_completion
        case "GET", ["", "v1", "responses", response_id] if query(scope).get("stream") == "true":
            scope["path_params"] = {"response_id": response_id}
            return streaming.replay_response
        case "GET", ["", "v1", "tasks", task_id, "events"] if _wants_event_stream(scope):
            scope["path_params"] = {"task_id": task_id}
            return streaming.task_events
    return None


def _wants_event_stream(scope: Scope) -> bool:
    accepted = (header(scope, b"accept") or "").split(",")
    return any(kind.partition(";")[0].strip() == "text/event-stream" for kind in accepted)
