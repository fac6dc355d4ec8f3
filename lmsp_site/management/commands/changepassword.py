"""Django's command that sets a user's password, with an entry in the audit log."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor


class Command(changepassword.Command):
    """``changepassword [USER]``."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Ask for the password, set it, and write down that it was set."""
        said = super().handle(*args, **options)
        # Only now: a transaction from the start would last as long as somebody types.
        user = User.objects.get(username=options["username"] or getpass.getuser())
        audit_log.record(Actor.command_line(), Action.PASSWORD_SET, user)
        return said
