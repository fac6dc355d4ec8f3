"""Roles for people who are no superusers: what an observer may see, and what an operator may do beside that.

They are groups of Django's, brought up to date after each migration: permissions that somebody has added stay, and
those that are listed here come back.
"""

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db.models import Q

OBSERVER = "observer"
OPERATOR = "operator"
_APPS = ("clients_app", "models_app", "tasks_app", "lmsp_site", "django_q")
# Tokens are made by pairing and rotation, which `change_client` and `change_pairing` allow; people and roles stay a
# superuser's business, since whoever may edit them may do everything.
CHANGES = (
    "tasks_app.change_task",
    "tasks_app.delete_task",
    "clients_app.change_client",
    "clients_app.change_pairing",
    "models_app.add_languagemodel",
    "models_app.change_languagemodel",
    "models_app.delete_languagemodel",
    "models_app.add_modelpull",
    "models_app.change_modelpull",
    "models_app.add_modelalias",
    "models_app.change_modelalias",
    "models_app.delete_modelalias",
    "lmsp_site.change_serviceconfig",
)


def bring_up_to_date(**_signal: Any) -> None:
    """Make the roles, and give them what they lack."""
    seen = Permission.objects.filter(content_type__app_label__in=_APPS, codename__startswith="view_")
    observer, _ = Group.objects.get_or_create(name=OBSERVER)
    observer.permissions.add(*seen)
    operator, _ = Group.objects.get_or_create(name=OPERATOR)
    operator.permissions.add(*seen, *Permission.objects.filter(_named(CHANGES)))


def _named(labels: tuple[str, ...]) -> Q:
    wanted = Q()
    for label in labels:
        app, codename = label.split(".")
        wanted |= Q(content_type__app_label=app, codename=codename)
    return wanted
