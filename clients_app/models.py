"""TABLE clients: who may talk to this service. Django looks for the tables of pairing here, too."""

from django.db import models

from clients_app import scopes, tokens
from clients_app.pairing.models import GuessCount, Pairing
from lmsp_site.ids import new_id

__all__ = ["Client", "GuessCount", "Pairing"]


def _client_id() -> str:
    return new_id("client")


def _all_scopes() -> list[str]:
    return list(scopes.ALL)


class Client(models.Model):
    """A paired program. Its token itself is nowhere."""

    id = models.CharField(primary_key=True, max_length=40, default=_client_id, editable=False)
    name = models.CharField(max_length=100)
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=_all_scopes)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        db_table = "clients"
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def pair(cls, name: str, granted: list[str]) -> tuple["Client", str]:
        """Store a new client and return it with its token, which cannot be read again."""
        token = tokens.generate()
        return cls.objects.create(name=name, token_hash=tokens.digest(token), scopes=granted), token

    def may(self, scope: str) -> bool:
        """Tell whether the client was granted `scope`."""
        return scope in self.scopes
