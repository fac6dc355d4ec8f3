"""Clients in the admin."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import SET_NULL, Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache

from clients_app import limits, managing, scopes
from clients_app.models import CannotRotate, Client, ClientQuerySet
from clients_app.pairing.admin import PairingAdmin
from lmsp_site.admin import AuditedAdmin
from lmsp_site.audit_log import Action, Actor

__all__ = ["ClientAdmin", "PairingAdmin"]

_OVERLAP = timedelta(hours=1)


class ClientForm(forms.ModelForm):
    """A client, with the scopes that there are to choose from."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in scopes.ALL],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="What is taken away is refused at once, and streams that need it end within 5 seconds.",
    )

    class Meta:
        model = Client
        fields = ("name", "scopes", "expires_at", *limits.NAMES)


@admin.register(Client)
class ClientAdmin(AuditedAdmin):
    """Names, scopes and dates can be changed; tokens are made by pairing or ``create_client`` and shown once."""

    form = ClientForm
    list_display = ("name", "id", "scopes", "state", "created_at", "last_used_at", "expires_at")
    search_fields = ("id", "name")
    readonly_fields = ("id", "state", "created_at", "last_used_at", "previous_token_until", "revoked_at")
    actions = ("rotate_token", "revoke")

    def action_of(self, changed: Collection[str]) -> Action:
        """A change of what a client may do can be looked for by itself."""
        return Action.SCOPES_CHANGED if "scopes" in changed else Action.CHANGED

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A client without its token would be of no use."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A client's tasks outlive it: it is revoked. One that has none, and no key that keeps a result, may go."""
        return obj is not None and super().has_delete_permission(request, obj) and not _owns_anything(obj)

    @admin.action(description="Give the selected client a new token", permissions=["change"])
    def rotate_token(self, request: HttpRequest, clients: ClientQuerySet) -> HttpResponse | None:
        """Show a new token on a page of its own: a message would be kept in a cookie until it is shown."""
        if clients.count() != 1:
            self.message_user(request, "Select one client: its new token is shown once.", messages.ERROR)
            return None
        client = clients.get()
        try:
            token = managing.rotate(client, _OVERLAP, Actor.admin(request))
        except CannotRotate as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return None
        return _shown_once(request, {**self.admin_site.each_context(request), "client": client, "token": token})

    @admin.action(description="Revoke selected clients, for good", permissions=["change"])
    def revoke(self, request: HttpRequest, clients: ClientQuerySet) -> None:
        """Refuse them from now on; their streams and tasks are ended by those who have them."""
        actor = Actor.admin(request)
        revoked = [client for client in clients if managing.revoke(client, actor)]
        self.message_user(
            request,
            f"Revoked {len(revoked)} clients. What they have open, and their unfinished tasks, end within seconds.",
        )


def _owns_anything(client: Model) -> bool:
    for relation in client._meta.related_objects:
        owned = relation.related_model
        assert not isinstance(owned, str), "a relation to a model that is not there"
        if relation.on_delete is not SET_NULL and owned._base_manager.filter(**{relation.field.name: client}).exists():
            return True
    return False


@never_cache
def _shown_once(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return TemplateResponse(request, "clients_app/token.html", {**context, "title": "New token"})
