"""What people do about clients, each written into the audit log in the transaction that does it."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import SET_NULL

from clients_app.models import Client
from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor


class CannotDelete(Exception):
    """A client that something is left of stays; the message says what, and what to do."""


def create(name: str, granted: list[str], actor: Actor, expires_at: datetime | None = None) -> tuple[Client, str]:
    """Store a new client and return it with its token, which cannot be read again."""
    with transaction.atomic():
        client, token = Client.pair(name, granted, expires_at)
        audit_log.record(actor, Action.CREATED, client, scopes=granted, expires_at=expires_at)
    return client, token


def rotate(client: Client, overlap: timedelta, actor: Actor) -> str:
    """Give a client a new token, which is returned this once; the old one is good until the overlap ends.

    Raises:
        CannotRotate: the client is revoked or has expired.
    """
    with transaction.atomic():
        token = client.rotate(overlap)
        audit_log.record(actor, Action.ROTATED, client, overlap_seconds=int(overlap.total_seconds()))
    return token


def revoke(client: Client, actor: Actor) -> bool:
    """Refuse a client from now on; tell whether it was not revoked before."""
    with transaction.atomic():
        revoked = client.revoke()
        if revoked:
            audit_log.record(actor, Action.REVOKED, client)
    return revoked


def delete(client: Client, actor: Actor) -> None:
    """Delete a client that owns nothing.

    Raises:
        CannotDelete: it owns something, which outlives it.
    """
    with transaction.atomic():
        if owned := _owned(client):
            raise CannotDelete(
                f"{client.name} ({client.pk}) still has {owned}, and stays as long as these are kept: delete them "
                "first, or leave it to the retention. To keep it out, revoke it."
            )
        audit_log.record(actor, Action.DELETED, client)
        # The object keeps its id for whoever tells of it.
        Client.objects.filter(pk=client.pk).delete()


def _owned(client: Client) -> str:
    """Name what a client owns."""
    owned = []
    for relation in client._meta.related_objects:
        model = relation.related_model
        assert not isinstance(model, str), "a relation to a model that is not there"
        if relation.on_delete is not SET_NULL and model._base_manager.filter(**{relation.field.name: client}).exists():
            owned.append(str(model._meta.verbose_name_plural))
    return " and ".join(sorted(owned))


def limit(client: Client, own: Mapping[str, int | None], actor: Actor) -> None:
    """Give a client limits of its own, by the names of ``limits.NAMES``; ``None`` for those of all clients."""
    changes = {name: {"from": getattr(client, name), "to": value} for name, value in own.items()}
    changes = {name: change for name, change in changes.items() if change["from"] != change["to"]}
    if not changes:
        return
    with transaction.atomic():
        Client.objects.filter(pk=client.pk).update(**own)
        audit_log.record(actor, Action.CHANGED, client, changes=changes)
    client.refresh_from_db()
