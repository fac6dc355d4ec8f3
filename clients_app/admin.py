"""Clients in the admin."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from clients_app.models import Client


@admin.register(Client)
class ClientAdmin(admin.ModelAdmin):
    """Names and scopes can be changed; tokens are made by ``create_client`` and shown once."""

    list_display = ("name", "id", "scopes", "created_at", "revoked_at")
    search_fields = ("id", "name")
    readonly_fields = ("id", "created_at", "revoked_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A client without its token would be of no use."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A client's tasks outlive it."""
        return False
