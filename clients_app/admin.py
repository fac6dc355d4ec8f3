"""Clients in the admin."""

from collections.abc import Collection

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from clients_app.models import Client
from clients_app.pairing.admin import PairingAdmin
from lmsp_site.admin import AuditedAdmin
from lmsp_site.audit_log import Action

__all__ = ["ClientAdmin", "PairingAdmin"]


@admin.register(Client)
class ClientAdmin(AuditedAdmin):
    """Names and scopes can be changed; tokens are made by pairing or ``create_client``."""

    list_display = ("name", "id", "scopes", "created_at", "revoked_at")
    search_fields = ("id", "name")
    readonly_fields = ("id", "created_at", "revoked_at")

    def action_of(self, changed: Collection[str]) -> Action:
        """A change of what a client may do can be looked for by itself."""
        return Action.SCOPES_CHANGED if "scopes" in changed else Action.CHANGED

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A client without its token would be of no use."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A client's tasks outlive it."""
        return False
