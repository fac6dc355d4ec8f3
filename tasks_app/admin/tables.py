"""What the service keeps beneath the tasks, to be read: the log would break, and so would a resume."""

from typing import Any

from django.contrib import admin
from django.db.models import Expression, QuerySet
from django.http import HttpRequest

from lmsp_site.admin import ReadOnlyAdmin, UncountedList
from tasks_app.admin.counting import ByRows
from tasks_app.models import IdempotencyKey, JournalEntry, Response, Snapshot, Statistic, TaskEvent, TaskInput


class KeyOrder(UncountedList):
    """A list in the order of the key, whatever an address asks for: any other would sort millions of rows."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet) -> list[Expression | str]:
        """Return the newest first."""
        return ["-pk"]


class TableAdmin(ReadOnlyAdmin):
    """A table that may have millions of rows: pages are found by the key, and nothing is counted far."""

    paginator = ByRows
    sortable_by = ()
    list_per_page = 40

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[UncountedList]:
        """Sort by nothing else."""
        return KeyOrder


@admin.register(TaskEvent)
class TaskEventAdmin(TableAdmin):
    """The logs."""

    list_display = ("task_id", "sequence_number", "type", "created_ms")
    search_fields = ("=task__id",)
    search_help_text = "The id of a task"


@admin.register(Response)
class ResponseAdmin(TableAdmin):
    """Requests."""

    list_display = ("id", "task_id", "store", "created_at")
    search_fields = ("id",)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(TableAdmin):
    """Keys that requests came with."""

    list_display = ("key", "endpoint", "client", "task_id", "result_status", "expires_at")
    list_select_related = ("client",)
    search_fields = ("key",)


@admin.register(TaskInput)
class TaskInputAdmin(TableAdmin):
    """What tasks were asked."""

    list_display = ("task_id",)
    search_fields = ("=task__id",)
    search_help_text = "The id of a task"


@admin.register(Snapshot)
class SnapshotAdmin(TableAdmin):
    """What a generation resumes from."""

    list_display = ("task_id", "slot", "fingerprint")
    exclude = ("prompt",)


@admin.register(JournalEntry)
class JournalEntryAdmin(TableAdmin):
    """The tokens of each commit."""

    list_display = ("snapshot_id", "position")
    exclude = ("tokens",)


@admin.register(Statistic)
class StatisticAdmin(ReadOnlyAdmin):
    """What ``/metrics`` is made from."""

    list_display = ("name", "labels", "value")
    search_fields = ("name",)
