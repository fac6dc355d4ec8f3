"""What clients have had, in the admin."""

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from clients_app.models import Client
from lmsp_site.admin_tables import ReadOnlyAdmin
from tasks_app.console import figures
from tasks_app.models import Usage


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    """What clients have had, newest day first."""

    list_display = ("day", "client", "model", "tasks", "tokens_in", "tokens_out", "run_time")
    nothing_yet = "No task has ended yet: what clients have had is counted when one does."
    list_filter = ("day", "model", ("client_id", admin.AllValuesFieldListFilter))
    search_fields = ("client_id",)
    search_help_text = "The id of a client"
    date_hierarchy = "day"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """Look the names up with the rows; a client that was deleted has none any more."""
        name = Client.objects.filter(pk=OuterRef("client_id")).values("name")[:1]
        rows: QuerySet[Usage] = super().get_queryset(request)
        return rows.annotate(client_name=Subquery(name))

    @admin.display(description="client", ordering="client_name")
    def client(self, row: Usage) -> SafeString:
        """Its name, which leads to it."""
        if name := getattr(row, "client_name", None):
            page = reverse("admin:clients_app_client_change", args=[row.client_id])
            return format_html('<a href="{}" title="{}">{}</a>', page, row.client_id, name)
        return format_html('<span title="{}">deleted, …{}</span>', row.client_id, row.client_id[-10:])

    @admin.display(description="tokens in", ordering="input_tokens")
    def tokens_in(self, row: Usage) -> str:
        """Of the prompts."""
        return f"{row.input_tokens:,}"

    @admin.display(description="tokens out", ordering="output_tokens")
    def tokens_out(self, row: Usage) -> str:
        """Of the answers."""
        return f"{row.output_tokens:,}"

    @admin.display(description="run time", ordering="run_ms")
    def run_time(self, row: Usage) -> str:
        """How long its tasks ran, together."""
        return figures.span(row.run_ms / 1000)
