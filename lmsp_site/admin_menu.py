"""What the admin's menu holds."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from clients_app.pairing.models import Pairing

_Item = tuple[str, str, str]

_SECTIONS: tuple[tuple[str, tuple[_Item, ...]], ...] = (
    ("Work", (("Tasks", "tasks_app.task", "task_alt"), ("Failed jobs", "django_q.failure", "report"))),
    (
        "Access",
        (
            ("Pairing requests", "clients_app.pairing", "handshake"),
            ("Clients", "clients_app.client", "devices"),
            ("Usage", "tasks_app.usage", "bar_chart"),
            ("People", "auth.user", "person"),
            ("Roles", "auth.group", "badge"),
        ),
    ),
    (
        "Service",
        (
            ("Models", "models_app.languagemodel", "deployed_code"),
            ("Model pulls", "models_app.modelpull", "download"),
            ("Configuration", "lmsp_site.serviceconfig", "tune"),
            ("Audit log", "lmsp_site.auditentry", "history"),
        ),
    ),
)
# What the service keeps beneath the tasks: seldom looked at, and then by somebody who knows the table.
_TABLES: tuple[_Item, ...] = (
    ("Events", "tasks_app.taskevent", "list_alt"),
    ("Responses", "tasks_app.response", "chat"),
    ("Inputs", "tasks_app.taskinput", "input"),
    ("Idempotency keys", "tasks_app.idempotencykey", "key"),
    ("Snapshots", "tasks_app.snapshot", "save"),
    ("Journal", "tasks_app.journalentry", "receipt_long"),
    ("Statistics", "tasks_app.statistic", "functions"),
    ("Jobs", "django_q.success", "done_all"),
    ("Job queue", "django_q.ormq", "queue"),
    ("Schedules", "django_q.schedule", "schedule"),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the menu of a person: what they may see, and how many pairings wait for them."""
    home: dict[str, Any] = {"title": "Dashboard", "icon": "monitoring", "link": "/admin/"}
    sections: list[dict[str, Any]] = [{"title": None, "items": [home]}]
    sections += [{"title": title, "items": list(_shown(request, items))} for title, items in _SECTIONS]
    tables = list(_shown(request, _TABLES))
    sections.append({"title": "Tables", "collapsible": True, "separator": True, "items": tables})
    return [section for section in sections if section["items"]]


def _shown(request: HttpRequest, items: tuple[_Item, ...]) -> Iterator[dict[str, Any]]:
    registered = {model._meta.label_lower: site for model, site in admin.site._registry.items()}
    for title, label, icon in items:
        if label not in registered or not registered[label].has_view_permission(request):
            continue
        item = {"title": title, "icon": icon, "link": reverse(f"admin:{label.replace('.', '_')}_changelist")}
        if label == "clients_app.pairing" and (waiting := _waiting_pairings()):
            item |= {"badge": str(waiting), "badge_variant": "primary", "badge_style": "solid"}
        yield item


def _waiting_pairings() -> int:
    return Pairing.objects.pending(timezone.now()).count()
