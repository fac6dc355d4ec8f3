"""What Ctrl+K finds beside the menu: tasks, by the beginning of an id or a text in their metadata."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from unfold.dataclasses import SearchResult

from tasks_app.board import search
from tasks_app.board.permission import may_watch
from tasks_app.models import Task

_MOST = 8
_LEAST_CHARACTERS = 3


def find(request: HttpRequest, said: str) -> list[Any]:
    """Return the newest tasks that `said` may mean."""
    if len(said) < _LEAST_CHARACTERS or not may_watch(request.user):
        return []
    tasks = Task.objects.select_related("client").filter(pk__in=search.find(search.Wanted.said(said), _MOST).ids)
    return [
        SearchResult(
            title=task.id,
            description=f"{task.status}, {task.client.name}, {task.model}",
            link=reverse("admin:tasks_app_task_change", args=[task.id]),
            icon="task_alt",
        )
        for task in tasks.order_by("-id")
    ]
