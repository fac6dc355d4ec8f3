"""The service's configuration in the admin, and what is only to be read there."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

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


@admin.register(ServiceConfig)
class ServiceConfigAdmin(admin.ModelAdmin):
    """One row, edited in place; an edit is in force at once."""

    readonly_fields = ("service_id",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """There is exactly one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """The service cannot be without it."""
        return False
