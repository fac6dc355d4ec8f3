"""TABLES pairings and pairing_guesses: programs that ask for a token, and how often people have typed a wrong code."""

from datetime import datetime
from typing import Self

from django.db import models
from django.utils import timezone

from clients_app.pairing import user_codes
from lmsp_site.ids import new_id


class Status(models.TextChoices):
    """What has become of a pairing; whether it has expired is told by its time."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    COLLECTED = "collected"


_OPEN = (Status.PENDING, Status.APPROVED)


def _pairing_id() -> str:
    return new_id("pairing")


class PairingQuerySet(models.QuerySet["Pairing"]):
    """Pairings by what can still be done with them."""

    def pending(self, now: datetime) -> Self:
        """Those that a person can approve or deny."""
        return self.filter(status=Status.PENDING, expires_at__gt=now)

    def open(self, now: datetime) -> Self:
        """Those that may still come to a token."""
        return self.filter(status__in=_OPEN, expires_at__gt=now)


class Pairing(models.Model):
    """A program's request for a token. Its device code itself is nowhere, and there is no token yet."""

    id = models.CharField(primary_key=True, max_length=40, default=_pairing_id, editable=False)
    name = models.CharField(max_length=100)
    wished_scopes = models.JSONField()
    granted_scopes = models.JSONField(null=True, blank=True)
    status = models.CharField(max_length=9, choices=Status, default=Status.PENDING)
    device_code_hash = models.CharField(max_length=64, unique=True, editable=False)
    user_code = models.CharField(max_length=user_codes.LENGTH, unique=True)
    address = models.CharField(max_length=64, blank=True)
    interval = models.PositiveIntegerField(help_text="Seconds that have to lie between two polls.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    last_polled_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=200, blank=True)
    client = models.ForeignKey(
        "clients_app.Client", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", editable=False
    )

    objects = PairingQuerySet.as_manager()

    class Meta:
        db_table = "pairings"
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=Status.values), name="pairing_status_is_known"),
            models.CheckConstraint(
                condition=~models.Q(status__in=(Status.APPROVED, Status.COLLECTED))
                | models.Q(granted_scopes__isnull=False),
                name="an_approved_pairing_has_scopes",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_pending(self) -> bool:
        """Whether a person can approve or deny it now."""
        return self.status == Status.PENDING and self.expires_at > timezone.now()


class GuessCount(models.Model):
    """How many wrong codes were typed since a moment: of one code, or in all."""

    key = models.CharField(primary_key=True, max_length=user_codes.LENGTH)
    count = models.PositiveIntegerField()
    since = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "pairing_guesses"
