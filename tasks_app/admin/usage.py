"""What clients have had, in the admin."""

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from clients_app.models import Client
from lmsp_site.admin import ReadOnlyAdmin
from tasks_app.models import Usage


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
