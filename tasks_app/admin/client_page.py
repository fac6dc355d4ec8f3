"""Clients as a person looks after them: what each may do, what it has of its quotas, and what it has had."""

import json
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import F, OuterRef, QuerySet, Subquery, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from clients_app import limits, scopes
from clients_app.admin import ClientAdmin
from clients_app.models import Client
from lmsp_site.audit_log import Actor
from tasks_app import quotas, trying, usage
from tasks_app.callers import watch
from tasks_app.console import figures
from tasks_app.models import Task, Usage

_CHANGE = "clients_app.change_client"
_DAYS = 30
_SIZES = ("max_stored_bytes",)
_MOST_TASKS = 8

# In the place of the clients' own page, which knows nothing of tasks.
admin.site.unregister(Client)


@admin.register(Client)
class ClientPageAdmin(ClientAdmin):
    """Every client, with what it has had today; a page for each with its quotas and its last 30 days."""

    list_display = ("name", "shown_state", "used", "tokens_today", "may", "created_at", "id")
    change_form_template = "tasks_app/admin/client.html"
    fieldsets = (
        (None, {"fields": ("name", "scopes", "expires_at")}),
        (
            "Quotas",
            {"fields": limits.NAMES, "description": "Empty: as for all clients, see Configuration. 0: no limit."},
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Client]:
        """Look up with the rows what they have had today."""
        today = Usage.objects.filter(client_id=OuterRef("pk"), day=usage.today()).order_by().values("client_id")
        tokens = today.annotate(tokens=Sum(F("input_tokens") + F("output_tokens"))).values("tokens")
        rows: QuerySet[Client] = super().get_queryset(request)
        return rows.annotate(tokens_of_today=Subquery(tokens))

    @admin.display(description="state")
    def shown_state(self, client: Client) -> SafeString:
        """Whether it is let in."""
        return format_html('<span class="state {}">{}</span>', client.state, client.state)

    @admin.display(description="last used", ordering="last_used_at")
    def used(self, client: Client) -> str:
        """How long ago a call came with its token, to the minute."""
        return _ago(client)

    @admin.display(description="tokens today", ordering="tokens_of_today")
    def tokens_today(self, client: Client) -> str:
        """Tokens of the tasks that have ended today, in UTC."""
        return f"{getattr(client, 'tokens_of_today', None) or 0:,}"

    @admin.display(description="scopes")
    def may(self, client: Client) -> str:
        """What it was granted."""
        return "all" if set(client.scopes) == set(scopes.ALL) else ", ".join(client.scopes) or "none"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what is known of the client, and what can be done with it, above what may be set."""
        client = Client.objects.filter(pk=unquote(object_id)).first()
        context = dict(extra_context or {})
        if client is not None:
            days = _days(client)
            context |= {
                "client": client,
                "facts": _facts(client),
                "granted": [(scope, scopes.MEANING[scope], client.may(scope)) for scope in scopes.ALL],
                "quotas": _quotas(client),
                "days": json.dumps(days),
                "totals": {name: f"{sum(days[name]):,}" for name in ("tasks", "input", "output")},
                "open": watch.held_by(client),
                "tasks": Task.objects.kept().filter(client=client).order_by("-id")[:_MOST_TASKS],
                "may_change": request.user.has_perm(_CHANGE),
                "may_delete": self.has_remove_permission(request),
                "of_console": client.pk == trying.CLIENT_ID,
                "may_see_tasks": request.user.has_perm("tasks_app.view_task"),
                "subtitle": None,
            }
        return super().change_view(request, object_id, form_url, context)

    def get_urls(self) -> list[URLPattern]:
        """Add where trials are allowed again."""
        view = self.admin_site.admin_view(require_POST(self._allow_trials))
        return [path("allow-trials/", view, name="clients_app_client_allow_trials"), *super().get_urls()]

    def _allow_trials(self, request: HttpRequest) -> HttpResponse:
        if not request.user.has_perm(_CHANGE):
            raise PermissionDenied
        if trying.allow_again(Actor.admin(request)):
            self.message_user(request, "Models can be tried again.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:clients_app_client_change", args=[trying.CLIENT_ID]))

    def _rotate(self, request: HttpRequest, client: Client, overlap: timedelta) -> HttpResponse | None:
        if client.pk != trying.CLIENT_ID:
            return super()._rotate(request, client, overlap)
        self.message_user(request, "This client belongs to the admin: nobody is to have its token.", messages.ERROR)
        return None


def _ago(client: Client) -> str:
    return f"{figures.span(figures.since(client.last_used_at))} ago" if client.last_used_at else "never"


def _facts(client: Client) -> list[tuple[str, str]]:
    moments = [
        ("Paired", client.created_at),
        ("Expires", client.expires_at),
        ("Old token good until", client.previous_token_until),
        ("Revoked", client.revoked_at),
    ]
    told = [(name, f"{moment:%Y-%m-%d %H:%M} UTC") for name, moment in moments if moment]
    return [("Id", client.pk), ("Last used", _ago(client)), *told]


def _quotas(client: Client) -> list[dict[str, Any]]:
    """Return each quota with what is used of it, as people read it; ``part`` of 100 where there is a limit."""
    shown = []
    for name, entry in quotas.overview(client).items():
        full = f"max_{name}"
        limit, used = entry["limit"], entry["used"]
        shown.append(
            {
                "name": str(Client._meta.get_field(full).verbose_name).capitalize(),  # type: ignore[union-attr]
                "meaning": limits.MEANING[full],
                "shown": ("no limit" if used is None else f"{_amount(full, used)}, no limit")
                if not limit
                else f"{_amount(full, used or 0)} of {_amount(full, limit)}",
                "part": min(100, round(100 * used / limit)) if limit and used is not None else None,
                "own": getattr(client, full) is not None,
            }
        )
    return shown


def _amount(name: str, count: int) -> str:
    return figures.size(count) if name in _SIZES else f"{count:,}"


def _days(client: Client) -> dict[str, list[Any]]:
    """Return what a client has had in each of the last days, the oldest first."""
    until = usage.today()
    since = until - timedelta(days=_DAYS - 1)
    had = {row["day"]: row for row in usage.listed(since, until, client_id=client.pk)}
    days = [since + timedelta(days=number) for number in range(_DAYS)]
    return {
        "at": [f"{day:%b} {day.day}" for day in days],
        **{
            name: [had[day][column] if day in had else 0 for day in days]
            for name, column in (("tasks", "tasks"), ("input", "input_tokens"), ("output", "output_tokens"))
        },
    }
