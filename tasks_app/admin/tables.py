"""What the service keeps beneath the tasks, to be read: the log would break, and so would a resume."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import Expression, Model, Q, QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from lmsp_site.admin_tables import ReadOnlyAdmin, UncountedList
from tasks_app.admin.counting import ByRows
from tasks_app.console import figures
from tasks_app.models import IdempotencyKey, JournalEntry, Response, Snapshot, Statistic, TaskEvent, TaskInput

_TOKEN_BYTES, _JOURNAL_BYTES = 4, 6
_SHOWN_CHARACTERS = 160


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
    nothing_yet = "There is nothing here yet: rows come with the first task."

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[UncountedList]:
        """Sort by nothing else."""
        return KeyOrder

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Model], bool]:
        """Find what is named whole, by its index: Django's way compares each row without regard to capitals."""
        if not (said := search_term.strip()):
            return queryset, False
        wanted = Q()
        for name in self.search_fields:
            wanted |= Q(**{name: said})
        return queryset.filter(wanted), False

    @admin.display(description="task")
    def of_task(self, row: Any) -> SafeString | str:
        """Whose it is."""
        return _task(row.task_id)


@admin.register(TaskEvent)
class TaskEventAdmin(TableAdmin):
    """The logs."""

    list_display = ("number", "type", "of_task", "written_at", "shown_data")
    search_fields = ("task_id",)
    search_help_text = "The id of a task"
    fields = ("of_task", "number", "type", "written_at", "data")
    readonly_fields = fields

    @admin.display(description="no.")
    def number(self, event: TaskEvent) -> str:
        """Its place in the log of its task."""
        return str(event.sequence_number)

    @admin.display(description="written (UTC)")
    def written_at(self, event: TaskEvent) -> str:
        """When, to the millisecond."""
        if not event.created_ms:
            return "-"
        return datetime.fromtimestamp(event.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    @admin.display(description="data")
    def shown_data(self, event: TaskEvent) -> SafeString:
        """How it begins; its page has all of it."""
        return format_html('<span class="cut">{}</span>', event.data[:_SHOWN_CHARACTERS])


@admin.register(Response)
class ResponseAdmin(TableAdmin):
    """Requests."""

    list_display = ("id", "of_task", "stored", "created_at")
    search_fields = ("id", "task_id")
    search_help_text = "The id of a response or a task"
    fields = ("id", "of_task", "stored", "created_at", "request")
    readonly_fields = fields

    @admin.display(description="stored", boolean=True)
    def stored(self, response: Response) -> bool:
        """Whether a client can ask for it later."""
        return response.store


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(TableAdmin):
    """Keys that requests came with."""

    list_display = ("key", "endpoint", "client", "of_task", "answer", "expires")
    list_select_related = ("client",)
    search_fields = ("key", "task_id")
    search_help_text = "A key, or the id of a task"
    fields = (
        "key",
        "endpoint",
        "client",
        "of_task",
        "answer",
        "created_at",
        "expires",
        "request_digest",
        "result_body",
    )
    readonly_fields = fields
    nothing_yet = (
        "No key is known: no request came with an Idempotency-Key lately. A key is forgotten after the hours that "
        "the configuration says."
    )

    @admin.display(description="answered")
    def answer(self, key: IdempotencyKey) -> str:
        """The status that a repeated request gets; none before the first is done."""
        return str(key.result_status or "not yet")

    @admin.display(description="forgotten in")
    def expires(self, key: IdempotencyKey) -> str:
        """How long it will still find its request."""
        left = (key.expires_at - datetime.now(UTC)).total_seconds()
        return figures.span(left) if left > 0 else "at the next purge"


class _OfTask(TableAdmin):
    """A table with one row, or some, for each task."""

    search_fields = ("task_id",)
    search_help_text = "The id of a task"

    @admin.display(description="size")
    def size(self, row: Any) -> str:
        """How much it holds."""
        return figures.size(row.bytes)


@admin.register(TaskInput)
class TaskInputAdmin(_OfTask):
    """What tasks were asked."""

    list_display = ("task_id", "of_task", "size")
    fields = ("of_task", "size", "items")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        """Look up how long they are, and in the list not the texts themselves."""
        rows: QuerySet[Model] = super().get_queryset(request).annotate(bytes=Length("items")).defer("items")
        return rows


@admin.register(Snapshot)
class SnapshotAdmin(_OfTask):
    """What a generation resumes from."""

    list_display = ("task_id", "of_task", "prompt_tokens", "slot", "fingerprint")
    fields = ("of_task", "prompt_tokens", "seed", "slot", "fingerprint")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        """Look up how long the prompts are, and not the tokens themselves."""
        rows: QuerySet[Model] = super().get_queryset(request).annotate(bytes=Length("prompt")).defer("prompt")
        return rows

    @admin.display(description="tokens of the prompt")
    def prompt_tokens(self, snapshot: Any) -> str:
        """How many there are."""
        return f"{snapshot.bytes // _TOKEN_BYTES:,}"


@admin.register(JournalEntry)
class JournalEntryAdmin(_OfTask):
    """The tokens of each commit."""

    list_display = ("position", "of_task", "tokens_of_commit")
    search_fields = ("snapshot_id",)
    fields = ("of_task", "position", "tokens_of_commit")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        """Look up how many tokens there are, and not the tokens themselves."""
        rows: QuerySet[Model] = super().get_queryset(request).annotate(bytes=Length("tokens")).defer("tokens")
        return rows

    @admin.display(description="task")
    def of_task(self, row: Any) -> SafeString | str:
        """Whose it is."""
        return _task(row.snapshot_id)

    @admin.display(description="tokens")
    def tokens_of_commit(self, entry: Any) -> str:
        """How many it has."""
        return str(entry.bytes // _JOURNAL_BYTES)


@admin.register(Statistic)
class StatisticAdmin(ReadOnlyAdmin):
    """What ``/metrics`` is made from."""

    list_display = ("name", "labels", "shown_value")
    search_fields = ("name", "labels")
    search_help_text = "A part of a name, or of the labels"
    ordering = ("name", "labels")
    nothing_yet = "Nothing has been counted yet: sums come with the first task."

    @admin.display(description="value", ordering="value")
    def shown_value(self, row: Statistic) -> str:
        """Without a fraction where it has none."""
        return f"{row.value:,.3f}".rstrip("0").rstrip(".")


def _task(task_id: str | None) -> SafeString | str:
    if not task_id:
        return "removed"
    page = reverse("admin:tasks_app_task_change", args=[task_id])
    return format_html('<a class="code" href="{}" title="{}">…{}</a>', page, task_id, task_id[-10:])
