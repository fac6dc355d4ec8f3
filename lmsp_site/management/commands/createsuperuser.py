"""Django's command that makes a superuser, with an entry in the audit log."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor


class Command(createsuperuser.Command):
    """``createsuperuser``: what it asks for may be given as options, too."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask for name and password, make the user, and write down who was made."""
        before = set(User.objects.values_list("pk", flat=True))
        super().handle(*args, **options)
        # Only now: a transaction from the start would last as long as somebody types.
        for user in User.objects.filter(is_superuser=True).exclude(pk__in=before):
            audit_log.record(Actor.command_line(), Action.CREATED, user, is_superuser=True)
