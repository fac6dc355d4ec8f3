"""Clients in the admin."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import SET_NULL, Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from clients_app import limits, managing, scopes
from clients_app.models import CannotRotate, Client, ClientQuerySet
from clients_app.pairing.admin import PairingAdmin
from lmsp_site.admin import AuditedAdmin
from lmsp_site.audit_log import Action, Actor

__all__ = ["ClientAdmin", "PairingAdmin"]

_OVERLAPS = {"0": timedelta(0), "3600": timedelta(hours=1), "86400": timedelta(days=1)}
_OVERLAP = _OVERLAPS["3600"]
_CHANGE = "clients_app.change_client"


class ClientForm(forms.ModelForm):
    """A client, with the scopes that there are to choose from."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {scopes.MEANING[scope]}") for scope in scopes.ALL],
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
    list_display: tuple[str, ...] = ("name", "id", "scopes", "state", "created_at", "last_used_at", "expires_at")
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
        return self._rotate(request, clients.get(), _OVERLAP)

    @admin.action(description="Revoke selected clients, for good", permissions=["change"])
    def revoke(self, request: HttpRequest, clients: ClientQuerySet) -> None:
        """Refuse them from now on; their streams and tasks are ended by those who have them."""
        actor = Actor.admin(request)
        revoked = [client for client in clients if managing.revoke(client, actor)]
        self.message_user(
            request,
            f"Revoked {len(revoked)} clients. What they have open, and their unfinished tasks, end within seconds.",
        )

    def get_urls(self) -> list[URLPattern]:
        """Add where the buttons of a client's page lead."""
        deeds = {"rotate": self._rotate_one, "revoke": self._revoke_one}
        urls = [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(require_POST(view)),
                name=f"clients_app_client_{name}",
            )
            for name, view in deeds.items()
        ]
        return [*urls, *super().get_urls()]

    def _rotate_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        (client,) = self._named(request, object_id)
        # What is not offered ends the old token as the action does.
        shown = self._rotate(request, client, _OVERLAPS.get(request.POST.get("overlap", ""), _OVERLAP))
        return shown or self._back(object_id)

    def _revoke_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        self.revoke(request, self._named(request, object_id))
        return self._back(object_id)

    def _named(self, request: HttpRequest, object_id: str) -> ClientQuerySet:
        if not request.user.has_perm(_CHANGE):
            raise PermissionDenied
        clients: ClientQuerySet = Client.objects.filter(pk=unquote(object_id))
        if not clients:
            raise Http404
        return clients

    def _back(self, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:clients_app_client_change", args=[object_id]))

    def _rotate(self, request: HttpRequest, client: Client, overlap: timedelta) -> HttpResponse | None:
        try:
            token = managing.rotate(client, overlap, Actor.admin(request))
        except CannotRotate as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return None
        return _shown_once(request, {**self.admin_site.each_context(request), "client": client, "token": token})


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
