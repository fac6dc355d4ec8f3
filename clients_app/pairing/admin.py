"""Pairings in the admin: to be read, approved and denied."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from clients_app.pairing import deciding, user_codes
from clients_app.pairing.forms import DecisionForm
from clients_app.pairing.guesses import CannotDecide
from clients_app.pairing.models import Pairing, PairingQuerySet, Status
from clients_app.pairing.page import may_decide
from lmsp_site.admin_tables import ReadOnlyAdmin
from lmsp_site.audit_log import Actor


@admin.register(Pairing)
class PairingAdmin(ReadOnlyAdmin):
    """Every program that has asked lately. The page of one that waits has the buttons, and scopes to choose from."""

    list_display = ("name", "code", "state", "wishes", "granted", "address", "created_at", "decided_by")
    list_filter = ("status",)
    search_fields = ("name", "id", "address")
    search_help_text = "A part of a name, of an id or of an address"
    nothing_yet = (
        "No program has asked for a token lately. One asks by POST /v1/pairing and shows a code, which is approved "
        "here or on /pair."
    )
    fields = (
        *("id", "name", "code", "state", "wishes", "granted", "address"),
        *("created_at", "expires_at", "last_polled_at", "interval", "decided_at", "decided_by", "client"),
    )
    readonly_fields = fields
    actions = ("approve", "deny")

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Whoever may only look decides nothing."""
        return may_decide(request.user)

    @admin.display(description="code", ordering="user_code")
    def code(self, pairing: Pairing) -> str:
        """The code that the program shows: to be compared."""
        return user_codes.shown(pairing.user_code)

    @admin.display(description="state", ordering="status")
    def state(self, pairing: Pairing) -> SafeString:
        """What has become of it."""
        expired = pairing.status == Status.PENDING and not pairing.is_pending
        state = "expired" if expired else str(pairing.status)
        return format_html('<span class="state {}">{}</span>', state, state)

    @admin.display(description="wishes for")
    def wishes(self, pairing: Pairing) -> str:
        """What it would like to be allowed."""
        return ", ".join(pairing.wished_scopes) or "nothing"

    @admin.display(description="was granted")
    def granted(self, pairing: Pairing) -> str:
        """What it was allowed, once that is decided."""
        return "-" if pairing.granted_scopes is None else ", ".join(pairing.granted_scopes) or "nothing"

    @admin.action(description="Approve selected pairings, with all scopes that they wish for", permissions=["decide"])
    def approve(self, request: HttpRequest, pairings: PairingQuerySet) -> None:
        """Approve those that wait."""
        done = self._decide_each(pairings, lambda pairing: deciding.approve(pairing, Actor.admin(request)))
        self.message_user(request, _told("Approved", done))

    @admin.action(description="Deny selected pairings", permissions=["decide"])
    def deny(self, request: HttpRequest, pairings: PairingQuerySet) -> None:
        """Deny those that wait."""
        done = self._decide_each(pairings, lambda pairing: deciding.deny(pairing, Actor.admin(request)))
        self.message_user(request, _told("Denied", done))

    def _decide_each(self, pairings: PairingQuerySet, decide: Callable[[Pairing], None]) -> int:
        done = 0
        for pairing in pairings:
            try:
                decide(pairing)
            except deciding.UnknownCode:
                continue
            done += 1
        return done

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the pairing and, while it waits, what can be decided."""
        pairing = Pairing.objects.filter(pk=unquote(object_id)).first()
        context = dict(extra_context or {})
        if pairing is not None and pairing.is_pending and may_decide(request.user):
            context |= {"decision": DecisionForm(pairing), "code": self.code(pairing)}
        return super().change_view(request, object_id, form_url, context)

    def get_urls(self) -> list[URLPattern]:
        """Add where the buttons lead."""
        decide = path(
            "<path:object_id>/decide/", self.admin_site.admin_view(self.decide), name="clients_app_pairing_decide"
        )
        return [decide, *super().get_urls()]

    @method_decorator(require_POST)
    def decide(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Do what was decided on the page of one pairing."""
        if not may_decide(request.user):
            raise PermissionDenied
        pairing = get_object_or_404(Pairing, pk=unquote(object_id))
        try:
            messages.success(request, DecisionForm(pairing, request.POST).carry_out(Actor.admin(request)))
        except CannotDecide as refusal:
            messages.error(request, str(refusal))
        return HttpResponseRedirect(reverse("admin:clients_app_pairing_change", args=[pairing.pk]))


def _told(deed: str, count: int) -> str:
    return f"{deed} {count} {'pairing' if count == 1 else 'pairings'}; those that waited no more stay as they are."
