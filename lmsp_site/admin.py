"""The service's configuration in the admin."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from lmsp_site.admin_audit_log import AuditEntryAdmin
from lmsp_site.admin_people import PersonAdmin, RoleAdmin
from lmsp_site.admin_tables import AuditedAdmin
from lmsp_site.models import ServiceConfig
from models_app import naming

__all__ = ["AuditEntryAdmin", "PersonAdmin", "RoleAdmin", "ServiceConfigAdmin"]

_SECTIONS = (
    ("Identity", ("service_id", "name"), "What programs are told at /.well-known/lmsp. The id never changes."),
    (
        "After a restart",
        ("default_on_restart", "max_attempts"),
        "What becomes of tasks that ran. A request may say so itself (on_restart); this is for those that do not.",
    ),
    (
        "Kept for",
        ("retention_days", "idempotency_hours"),
        "What is older is removed within minutes, a little at a time. A shorter time frees space and cannot be undone; "
        "the dashboard tells how large the database becomes.",
    ),
    (
        "Models in memory",
        ("keep_alive", "max_loaded", "engine_memory_mb", "preload"),
        "A model is loaded when a task needs it, and unloaded when it has been idle, or to make room for another.",
    ),
    (
        "Limits of each client",
        ("max_running", "max_queued", "max_requests_per_minute", "max_tokens_per_day", "max_stored_bytes"),
        "For every client that has no limit of its own; that is set on the client's page.",
    ),
)


class ConfigForm(forms.ModelForm):
    """The configuration, whose models have to be there."""

    def clean_preload(self) -> str:
        """Refuse what names no model: it would show at the next start only."""
        names = self.cleaned_data["preload"].split()
        if unknown := [name for name in dict.fromkeys(names) if naming.find(name) is None]:
            raise forms.ValidationError(f"There is no model {', '.join(unknown)}: the list of models has their ids.")
        return "\n".join(names)


@admin.register(ServiceConfig)
class ServiceConfigAdmin(AuditedAdmin):
    """One row, edited in place; an edit is in force at once, without a restart."""

    form = ConfigForm
    readonly_fields = ("service_id",)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one row: lead to it."""
        return HttpResponseRedirect(reverse("admin:lmsp_site_serviceconfig_change", args=[1]))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> list[tuple[Any, Any]]:
        """Return the fields by what they are about; one that is about nothing of it comes last."""
        left = [name for name in self.get_fields(request, obj) if not any(name in names for _, names, _ in _SECTIONS)]
        sections = [(title, {"fields": names, "description": description}) for title, names, description in _SECTIONS]
        return [*sections, ("More", {"fields": left})] if left else sections

    def has_add_permission(self, request: HttpRequest) -> bool:
        """There is exactly one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """The service cannot be without it."""
        return False
