"""TABLE audit_log: who has changed what about clients, models, people and the service, and who has signed in.

What is written there is never changed.
"""

import os
import pwd
from dataclasses import dataclass
from typing import Any, Self

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.http import HttpRequest

from lmsp_site.triggers import Triggers

_NAME_LENGTH = 200

GUARDS = Triggers(
    {
        "audit_entries_are_not_changed": """
            BEFORE UPDATE ON audit_log
            BEGIN SELECT RAISE(ABORT, 'an entry of the audit log cannot be changed'); END
        """,
        "audit_entries_are_not_deleted": """
            BEFORE DELETE ON audit_log
            BEGIN SELECT RAISE(ABORT, 'an entry of the audit log cannot be deleted'); END
        """,
        # REPLACE deletes what it replaces without asking the trigger above.
        "audit_entries_are_not_replaced": """
            BEFORE INSERT ON audit_log
            WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
            BEGIN SELECT RAISE(ABORT, 'an entry of the audit log cannot be replaced'); END
        """,
    }
)


class Action(models.TextChoices):
    """What was done."""

    CREATED = "created"
    PAIRED = "paired"
    APPROVED = "approved"
    DENIED = "denied"
    CHANGED = "changed"
    SCOPES_CHANGED = "scopes_changed", "Scopes changed"
    ROTATED = "rotated"
    REVOKED = "revoked"
    REINSTATED = "reinstated"
    DELETED = "deleted"
    CANCELLED = "cancelled"
    RERUN = "rerun", "Run again"
    SIGNED_IN = "signed_in", "Signed in"
    SIGN_IN_FAILED = "sign_in_failed", "Sign-in failed"
    SIGNED_OUT = "signed_out", "Signed out"
    PASSWORD_SET = "password_set", "Password set"


class ActorKind(models.TextChoices):
    """By which door somebody came."""

    ADMIN = "admin", "admin user"
    COMMAND = "command", "command line"
    CLIENT = "client"


@dataclass(frozen=True)
class Actor:
    """Who does something, and from where.

    Attributes:
        name: the admin's user name, the operating system's user name, or the client's id.
        address: the other end of the connection, empty on the command line. What a header says of it is not believed.
    """

    kind: ActorKind
    name: str
    address: str = ""

    @classmethod
    def admin(cls, request: HttpRequest) -> Self:
        """Return the person who is logged in."""
        return cls(ActorKind.ADMIN, request.user.get_username(), peer(request))

    @classmethod
    def command_line(cls) -> Self:
        """Return the user whose process this is."""
        user = os.getuid()
        try:
            name = pwd.getpwuid(user).pw_name
        except KeyError:
            # Containers run as users that no file knows.
            name = str(user)
        return cls(ActorKind.COMMAND, name)

    @classmethod
    def client(cls, client_id: str, address: str) -> Self:
        """Return a client of the API."""
        return cls(ActorKind.CLIENT, client_id, address)


class AuditEntry(models.Model):
    """One deed. Neither the service nor the admin can change or delete it: triggers refuse."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor_kind = models.CharField(max_length=7, choices=ActorKind)
    actor = models.CharField(max_length=_NAME_LENGTH)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=14, choices=Action)
    subject_kind = models.CharField(max_length=50)
    subject_id = models.CharField(max_length=_NAME_LENGTH)
    subject = models.CharField(max_length=_NAME_LENGTH)
    detail = models.JSONField(default=dict, encoder=DjangoJSONEncoder)

    class Meta:
        db_table = "audit_log"
        ordering = ["-id"]
        verbose_name = "audit log entry"
        verbose_name_plural = "audit log"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject_kind} {self.subject}"


def record(actor: Actor, action: Action, subject: models.Model, **detail: Any) -> None:
    """Write down what has been done; part of the transaction that does it.

    Args:
        actor: who does it.
        action: what is done.
        subject: the row it is done to. The entry keeps its kind, id and name, and no reference: it outlives the row.
            One that is not stored stands for nobody.
        detail: what else is worth knowing, as JSON; never a secret.
    """
    AuditEntry.objects.create(
        actor_kind=actor.kind,
        actor=actor.name[:_NAME_LENGTH],
        address=actor.address,
        action=action,
        subject_kind=str(subject._meta.verbose_name),
        subject_id=subject.pk or "",
        subject=str(subject)[:_NAME_LENGTH],
        detail=detail,
    )


def peer(request: HttpRequest) -> str:
    """Return the address of whoever holds the other end of a request's connection; that of a proxy, behind one."""
    address: str = request.META.get("REMOTE_ADDR") or ""
    return address
