"""What the pages of tables in the admin have in common: those that are only read, and those whose edits are audited."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django import forms
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor

if TYPE_CHECKING:  # The theme has no types of its own.
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
else:
    from unfold.admin import ModelAdmin
    from unfold.views import ChangeList


class UncountedList(ChangeList):
    """A list that does not say how many rows there would be without its filters: nobody has counted them."""

    def get_results(self, request: HttpRequest) -> None:
        """Find the rows of the page."""
        super().get_results(request)
        if self.full_result_count is None:
            self.full_result_count = self.result_count


class AnyTableAdmin(ModelAdmin):
    """A table.

    Attributes:
        nothing_yet: what is said where it has no rows: why, and what makes some.
    """

    nothing_yet = ""
    show_full_result_count = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Count nothing."""
        return UncountedList


class ReadOnlyAdmin(AnyTableAdmin):
    """A table that people read and the service writes."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is added by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nothing is changed by hand, a forged form included."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Retention deletes."""
        return False


class AuditedAdmin(AnyTableAdmin):
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

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        """Store what the row refers to, such as the roles of a person."""
        obj = form.instance
        before = _relations(obj)
        super().save_related(request, form, formsets, change)
        after = _relations(obj)
        changes = {
            name: {"added": sorted(after[name] - before[name]), "removed": sorted(before[name] - after[name])}
            for name in after
            if before[name] != after[name]
        }
        if changes:
            audit_log.record(Actor.admin(request), Action.CHANGED, obj, changes=changes)

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
    # What cannot be edited at all, such as the hash of a token, is nobody's to read; nor is that of a password.
    fields = [field for field in obj._meta.concrete_fields if field.editable and field.name != "password"]
    return {field.name: field.value_from_object(obj) for field in fields}


def _relations(obj: Model) -> dict[str, set[str]]:
    return {field.name: set(map(str, getattr(obj, field.name).all())) for field in obj._meta.many_to_many}
