"""The service's configuration and the audit log in the admin, and what the other apps' pages have in common."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor, AuditEntry
from lmsp_site.models import ServiceConfig

if TYPE_CHECKING:  # The theme has no types of its own.
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
    from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
else:
    from unfold.admin import ModelAdmin
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
    from unfold.views import ChangeList


class UncountedList(ChangeList):
    """A list that does not say how many rows there would be without its filters: nobody has counted them."""

    def get_results(self, request: HttpRequest) -> None:
        """Find the rows of the page."""
        super().get_results(request)
        if self.full_result_count is None:
            self.full_result_count = self.result_count


class ReadOnlyAdmin(ModelAdmin):
    """A table that people read and the service writes."""

    show_full_result_count = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Count nothing."""
        return UncountedList

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is added by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nothing is changed by hand, a forged form included."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Retention deletes."""
        return False


class AuditedAdmin(ModelAdmin):
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


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """What was done, newest first."""

    list_display = ("at", "actor", "actor_kind", "action", "subject_kind", "subject", "address")
    list_filter = ("action", "actor_kind", "subject_kind", "at")
    search_fields = ("actor", "subject", "subject_id", "address")
    search_help_text = "A name, an id or an address"
    date_hierarchy = "at"


def _relations(obj: Model) -> dict[str, set[str]]:
    return {field.name: set(map(str, getattr(obj, field.name).all())) for field in obj._meta.many_to_many}


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
)


@admin.register(ServiceConfig)
class ServiceConfigAdmin(AuditedAdmin):
    """One row, edited in place; an edit is in force at once, without a restart."""

    readonly_fields = ("service_id",)
    list_display = ("name", "service_id", "default_on_restart", "retention_days")

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


# Django's own pages for people and roles, in the theme.
admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(AuditedAdmin, UserAdmin):
    """People who may sign in here; each change of one is in the audit log, and never a password."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")


@admin.register(Group)
class RoleAdmin(AuditedAdmin, GroupAdmin):
    """Roles: sets of permissions."""
