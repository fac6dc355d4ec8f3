"""Clients in the admin."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from clients_app import limits, managing, scopes
from clients_app.models import CannotRotate, Client, ClientQuerySet
from clients_app.pairing.admin import PairingAdmin
from lmsp_site.admin_tables import AuditedAdmin
from lmsp_site.audit_log import Action, Actor

__all__ = ["ClientAdmin", "PairingAdmin"]

_OVERLAPS = {"0": timedelta(0), "3600": timedelta(hours=1), "86400": timedelta(days=1)}
_OVERLAP = _OVERLAPS["3600"]
_CHANGE = "clients_app.change_client"
_DELETE = "clients_app.delete_client"
_LIST = "admin:clients_app_client_changelist"


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
    actions = ("rotate_token", "revoke", "remove")
    search_help_text = "A part of a name or of an id"
    nothing_yet = (
        "No program is paired yet. One that asks for a token shows under Pairing requests; `manage.py create_client "
        "NAME` makes a token by hand."
    )

    def action_of(self, changed: Collection[str]) -> Action:
        """A change of what a client may do can be looked for by itself."""
        return Action.SCOPES_CHANGED if "scopes" in changed else Action.CHANGED

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A client without its token would be of no use."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """By the form of Django's: ``remove`` does it, and says why it does not."""
        return False

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """Whoever may delete clients may delete those that own nothing."""
        return request.user.has_perm(_DELETE)

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
        if not revoked:
            self.message_user(request, "Nothing has changed: revoked before.", messages.WARNING)
            return
        said = f"Revoked {', '.join(client.name for client in revoked)}."
        self.message_user(request, f"{said} What is open, and unfinished tasks, end within seconds.", messages.SUCCESS)

    @admin.action(description="Delete selected clients that have no tasks", permissions=["remove"])
    def remove(self, request: HttpRequest, clients: ClientQuerySet) -> None:
        """Delete those that own nothing, and say of the others why not."""
        actor, deleted = Actor.admin(request), 0
        for client in clients:
            try:
                managing.delete(client, actor)
            except managing.CannotDelete as refusal:
                self.message_user(request, str(refusal), messages.ERROR)
            else:
                deleted += 1
        if deleted:
            said = f"Deleted {deleted} {'client' if deleted == 1 else 'clients'}."
            self.message_user(request, said, messages.SUCCESS)

    def get_urls(self) -> list[URLPattern]:
        """Add where the buttons of a client's page lead."""
        deeds = {"rotate": self._rotate_one, "revoke": self._revoke_one, "remove": self._remove_one}
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

    def _remove_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        clients = self._named(request, object_id, _DELETE)
        self.remove(request, clients)
        return self._back(object_id) if clients.all() else HttpResponseRedirect(reverse(_LIST))

    def _named(self, request: HttpRequest, object_id: str, permission: str = _CHANGE) -> ClientQuerySet:
        if not request.user.has_perm(permission):
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


@never_cache
def _shown_once(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return TemplateResponse(request, "clients_app/token.html", {**context, "title": "New token"})
