"""Tasks, their logs, responses and keys in the admin: to be read, since the log would break."""

from django.contrib import admin
from django.http import HttpRequest

from lmsp_site.admin import ReadOnlyAdmin
from tasks_app import lifecycle
from tasks_app.models import (
    IdempotencyKey,
    JournalEntry,
    Response,
    Snapshot,
    Statistic,
    Task,
    TaskEvent,
    TaskInput,
    TaskQuerySet,
)


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    """Every task, with the action that the protocol gives people too."""

    list_display = (
        "id",
        "status",
        "client",
        "model",
        "on_restart",
        "attempt",
        "output_tokens",
        "created_at",
        "finished_at",
    )
    list_filter = ("status", "on_restart", "model", "client")
    list_select_related = ("client",)
    search_fields = ("id",)
    actions = ("cancel",)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whoever may only look at tasks may not end them."""
        return request.user.has_perm("tasks_app.change_task")

    @admin.action(description="Cancel selected tasks", permissions=["cancel"])
    def cancel(self, request: HttpRequest, tasks: TaskQuerySet) -> None:
        """Cancel what is not finished."""
        unfinished = list(tasks.unfinished().values_list("pk", flat=True))
        for task_id in unfinished:
            lifecycle.cancel(task_id)
        self.message_user(request, f"Cancelled {len(unfinished)} tasks; those that had finished stay as they are.")


@admin.register(TaskEvent)
class TaskEventAdmin(ReadOnlyAdmin):
    """The logs."""

    list_display = ("task_id", "sequence_number", "type", "created_ms")
    list_filter = ("type",)
    search_fields = ("=task__id",)
    search_help_text = "The id of a task"


@admin.register(Response)
class ResponseAdmin(ReadOnlyAdmin):
    """Requests."""

    list_display = ("id", "task_id", "store", "created_at")
    search_fields = ("id",)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    """Keys that requests came with."""

    list_display = ("key", "endpoint", "client", "task_id", "result_status", "expires_at")
    list_select_related = ("client",)
    search_fields = ("key",)


@admin.register(TaskInput)
class TaskInputAdmin(ReadOnlyAdmin):
    """What tasks were asked."""

    list_display = ("task_id",)
    search_fields = ("=task__id",)
    search_help_text = "The id of a task"


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    """What a generation resumes from."""

    list_display = ("task_id", "slot", "fingerprint")
    exclude = ("prompt",)


@admin.register(JournalEntry)
class JournalEntryAdmin(ReadOnlyAdmin):
    """The tokens of each commit."""

    list_display = ("snapshot_id", "position")
    exclude = ("tokens",)


@admin.register(Statistic)
class StatisticAdmin(ReadOnlyAdmin):
    """What ``/metrics`` is made from."""

    list_display = ("name", "labels", "value")
    search_fields = ("name",)
