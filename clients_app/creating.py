"""Making a client without pairing, and writing down who has."""

from django.db import transaction

from clients_app.models import Client
from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor


def create(name: str, granted: list[str], actor: Actor) -> tuple[Client, str]:
    """Store a new client and return it with its token, which cannot be read again."""
    with transaction.atomic():
        client, token = Client.pair(name, granted)
        audit_log.record(actor, Action.CREATED, client, scopes=granted)
    return client, token
