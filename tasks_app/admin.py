"""Tasks, their logs, responses and keys in the admin: to be read, since the log would break."""

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from clients_app.models import Client
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
    Usage,
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


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    """What clients have had, newest day first."""

    list_display = ("day", "client", "client_id", "model", "tasks", "input_tokens", "output_tokens", "run_time")
    list_filter = ("day", "model", ("client_id", admin.AllValuesFieldListFilter))
    search_fields = ("client_id",)
    search_help_text = "The id of a client"
    date_hierarchy = "day"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """Look the names up with the rows; a client that was deleted has none any more."""
        name = Client.objects.filter(pk=OuterRef("client_id")).values("name")[:1]
        rows: QuerySet[Usage] = super().get_queryset(request)
        return rows.annotate(client_name=Subquery(name))

    @admin.display(ordering="client_name")
    def client(self, row: Usage) -> str:
        """Return its name."""
        return getattr(row, "client_name", None) or "(deleted)"

    @admin.display(description="run time, seconds", ordering="run_ms")
    def run_time(self, row: Usage) -> str:
        """Return it as people read it."""
        return f"{row.run_ms / 1000:.1f}"
