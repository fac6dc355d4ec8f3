"""TABLE clients: who may talk to this service. Django looks for the tables of pairing here, too."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.core.validators import MaxValueValidator
from django.db import connection, models
from django.db.models import F, Q
from django.utils import timezone

from clients_app import scopes, tokens
from clients_app.pairing.models import GuessCount, Pairing
from lmsp_site import rows
from lmsp_site.ids import new_id
from lmsp_site.models import MOST_REQUESTS_PER_MINUTE

__all__ = ["Client", "GuessCount", "Pairing"]

LONGEST_OVERLAP = timedelta(days=30)


def _client_id() -> str:
    return new_id("client")


def _all_scopes() -> list[str]:
    return list(scopes.ALL)


_ADMITTED = (
    "(token_hash IN ({places}) OR previous_token_hash IN ({places}))"
    " AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s)"
)


class CannotRotate(Exception):
    """A client that has no good token gets no new one; the message says why and what to do."""


class ClientQuerySet(models.QuerySet["Client"]):
    """Clients by what they are to the service."""

    def admitted(self, hashes: Collection[str]) -> "dict[str, Client]":
        """Return, by the hash of its token, who may come with it now: one query, however many are asked for.

        A token is good while its client is neither revoked nor expired; one that was replaced, until its overlap ends.
        """
        now = timezone.now()
        places = ", ".join(["%s"] * len(hashes))
        values = [*hashes, *hashes, connection.ops.adapt_datetimefield_value(now)]
        found: dict[str, Client] = {}
        for client in rows.select(self.model, _ADMITTED.format(places=places), values) if hashes else ():
            found[client.token_hash] = client
            if client.previous_token_hash and client.previous_token_until and client.previous_token_until > now:
                found[client.previous_token_hash] = client
        return {token_hash: found[token_hash] for token_hash in hashes if token_hash in found}


class Client(models.Model):
    """A paired program. Its token itself is nowhere."""

    id = models.CharField(primary_key=True, max_length=40, default=_client_id, editable=False)
    name = models.CharField(max_length=100)
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    previous_token_hash = models.CharField(  # noqa: DJ001 - most clients have none
        max_length=64, null=True, blank=True, editable=False, db_index=True
    )
    previous_token_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Until then the token before this one is good, too."
    )
    scopes = models.JSONField(default=_all_scopes)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="From then on the client is refused, in UTC; empty: never."
    )
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When a call last came with its token, to the minute."
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    served = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="When it was its turn, counted in turns of all clients."
    )
    # What it may have, instead of what `service_config` says for all.
    max_running = models.PositiveIntegerField(
        null=True, blank=True, verbose_name="running tasks", help_text="At once; empty: as all clients, 0: no limit."
    )
    max_queued = models.PositiveIntegerField(
        null=True, blank=True, verbose_name="queued tasks", help_text="Empty: as all clients, 0: no limit."
    )
    max_requests_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        verbose_name="requests per minute",
        help_text="Empty: as all clients, 0: no limit.",
        validators=[MaxValueValidator(MOST_REQUESTS_PER_MINUTE)],
    )
    max_tokens_per_day = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        verbose_name="tokens per day",
        help_text="Of prompts and outputs, from midnight to midnight in UTC; empty: as all clients, 0: no limit.",
    )
    max_stored_bytes = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        verbose_name="stored bytes",
        help_text="Of the inputs and responses of its tasks; empty: as all clients, 0: no limit.",
    )

    objects = ClientQuerySet.as_manager()

    presented_hash = ""
    """Of the token that this very call came with; not stored."""

    quota_headers: dict[str, str] = {}
    """What the answer to this very call tells of the requests that are left; not stored."""

    class Meta:
        db_table = "clients"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["served", "id"], name="clients_by_turn"),
            models.Index(fields=["max_running"], condition=Q(max_running__gt=0), name="clients_with_running_limit"),
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def pair(cls, name: str, granted: list[str], expires_at: datetime | None = None) -> tuple["Client", str]:
        """Store a new client and return it with its token, which cannot be read again."""
        token = tokens.generate()
        client = cls.objects.create(name=name, token_hash=tokens.digest(token), scopes=granted, expires_at=expires_at)
        return client, token

    def may(self, scope: str) -> bool:
        """Tell whether the client was granted `scope`."""
        return scope in self.scopes

    @property
    def state(self) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at and self.expires_at <= timezone.now() else "active"

    def rotate(self, overlap: timedelta) -> str:
        """Give the client a new token and return it; it cannot be read again.

        Args:
            overlap: for how long the token that it has stays good; zero ends it at once. A token before that one ends
                at once in any case, so that a client never has more than two.

        Raises:
            CannotRotate: the client is revoked or has expired.
        """
        token = tokens.generate()
        now = timezone.now()
        rotated = Client.objects.filter(_in_force(now), pk=self.pk).update(
            previous_token_hash=F("token_hash"), previous_token_until=now + overlap, token_hash=tokens.digest(token)
        )
        self.refresh_from_db()
        if not rotated:
            remedy = {
                "revoked": "is revoked, for good; pair the program again",
                "expired": "has expired; set a later date in the admin first",
            }
            raise CannotRotate(f"The client {self.id} {remedy[self.state]}.")
        return token

    def revoke(self) -> bool:
        """Refuse the client from now on, for good; tell whether it was this call that did it.

        What it has open ends within seconds (``tasks_app.callers``), what it left unfinished is cancelled
        (``tasks_app.revoked``).
        """
        revoked = Client.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=timezone.now())
        self.refresh_from_db()
        return bool(revoked)


def _in_force(now: datetime) -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))
