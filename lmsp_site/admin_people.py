"""People and roles in the admin: Django's own pages, in the theme, and in the audit log."""

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import ManyToManyField
from django.forms import CheckboxSelectMultiple
from django.http import HttpRequest, HttpResponse

from lmsp_site import signing_in
from lmsp_site.admin_tables import AuditedAdmin
from lmsp_site.audit_log import Actor

if TYPE_CHECKING:  # The theme has no types of its own.
    from django.contrib.auth.forms import UserChangeForm, UserCreationForm
else:
    from unfold.forms import UserChangeForm, UserCreationForm

admin.site.unregister(User)
admin.site.unregister(Group)

_ROLES = (
    "To sign in here takes staff status. A superuser may do everything; others what their roles say: an observer sees "
    "all but people, an operator steers it, too."
)


@admin.register(User)
class PersonAdmin(UserAdmin, AuditedAdmin):
    """People who may sign in here; each change of one is in the audit log, and never a password."""

    # Django's class comes first: what the theme leaves empty, such as the fields of a new user, it knows.
    form = UserChangeForm
    add_form = UserCreationForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")

    # What one person may is said by roles; no permission is given without a name that can be looked for.
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("May", {"fields": ("is_active", "is_staff", "is_superuser", "groups"), "description": _ROLES}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()
    search_help_text = "A part of a name or an address"

    def formfield_for_manytomany(self, db_field: ManyToManyField, request: HttpRequest, **kwargs: Any) -> Any:
        """There are few roles: show them all."""
        return super().formfield_for_manytomany(db_field, request, widget=CheckboxSelectMultiple(), **kwargs)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002 - Django names it
        """Have somebody set another's password."""
        # Of this request alone: the form has to know who sets it.
        page = copy.copy(self)
        page.change_password_form = partial(signing_in.AnyPassword, actor=Actor.admin(request))
        return super(PersonAdmin, page).user_change_password(request, id, form_url)


@admin.register(Group)
class RoleAdmin(GroupAdmin, AuditedAdmin):
    """Roles: sets of permissions."""
