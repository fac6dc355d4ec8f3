"""The service's configuration and the audit log in the admin, and what the other apps' pages have in common."""

from collections.abc import Collection
from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor, AuditEntry
from lmsp_site.models import ServiceConfig


class ReadOnlyAdmin(admin.ModelAdmin):
    """A table that people read and the service writes."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is added by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nothing is changed by hand, a forged form included."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Retention deletes."""
        return False


class AuditedAdmin(admin.ModelAdmin):
    """A table whose changes by hand are written into the audit log, in the transaction of the change."""

    def action_of(self, changed: Collection[str]) -> Action:
        """Return what an edit of some fields is called."""
        return Action.CHANGED

    def save_model(self, request: HttpRequest, obj: Model, form: forms.ModelForm, change: bool) -> None:
        """Store the row and what has become of it; one that was saved as it was leaves no entry."""
        before = _fields(type(obj)._default_manager.get(pk=obj.pk)) if change else {}
        super().save_model(request, obj, form, change)
        if not change:
            audit_log.record(Actor.admin(request), Action.CREATED, obj)
            return
        after = _fields(obj)
        # Not `form.changed_data`: of some fields it believes what the browser says was there before.
        changes = {name: {"from": before[name], "to": after[name]} for name in after if before[name] != after[name]}
        if changes:
            audit_log.record(Actor.admin(request), self.action_of(changes), obj, changes=changes)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Delete the row, whose id and name the entry keeps."""
        with transaction.atomic():
            audit_log.record(Actor.admin(request), Action.DELETED, obj)
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Delete the rows, each with an entry of its own."""
        with transaction.atomic():
            for obj in queryset:
                audit_log.record(Actor.admin(request), Action.DELETED, obj)
            super().delete_queryset(request, queryset)


def _fields(obj: Model) -> dict[str, Any]:
    # What cannot be edited at all, such as the hash of a token, is nobody's to read.
    return {field.name: field.value_from_object(obj) for field in obj._meta.concrete_fields if field.editable}


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """What was done, newest first."""

    list_display = ("at", "actor", "actor_kind", "action", "subject_kind", "subject", "address")
    list_filter = ("action", "actor_kind", "subject_kind", "at")
    search_fields = ("actor", "subject", "subject_id", "address")
    search_help_text = "A name, an id or an address"
    date_hierarchy = "at"


@admin.register(ServiceConfig)
class ServiceConfigAdmin(AuditedAdmin):
    """One row, edited in place; an edit is in force at once."""

    readonly_fields = ("service_id",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """There is exactly one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """The service cannot be without it."""
        return False
