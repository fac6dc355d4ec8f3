"""Trying a model out in the admin: an ordinary task, of a client that belongs to the admin itself.

So it waits in the same queue as all others, under the same limits, and is listed, logged and counted like them.
"""

from typing import Any

from django.db import IntegrityError, transaction

from clients_app import tokens
from clients_app.models import Client
from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor
from lmsp_site.errors import Conflict, Unavailable
from models_app import loading, standing
from models_app.models import LanguageModel
from tasks_app import serializers, submission
from tasks_app.models import Task

CLIENT_ID = "client_admin_console"
_CLIENT_NAME = "admin console"
_SOON_SECONDS = 5
_INACTIVE = {
    "revoked": "is revoked. Its page has a button that allows trials again.",
    "expired": "has expired. Set a later date on its page, or none.",
}


def begin(model: LanguageModel, text: str, max_output_tokens: int, actor: Actor) -> Task:
    """Accept a task that answers `text`, and return it.

    Args:
        model: what is tried.
        text: what a user says.
        max_output_tokens: how long the answer may become.
        actor: who tries it, for the audit log.

    Raises:
        ProtocolError: the model cannot be used now (its files, its engine, or no engine host); the console's client is
            revoked; or what a request of a client would be refused for.
    """
    if why := standing.why_unusable(model, loading.states()):
        raise Unavailable(why, code="model_unavailable", retry_after=_SOON_SECONDS)
    client = _client(actor)
    body: dict[str, Any] = {
        "model": model.id,
        "input": text,
        "max_output_tokens": max_output_tokens,
        "priority": "interactive",
        "metadata": {"tried_by": actor.name},
    }
    accepted = submission.submit(
        client,
        serializers.read(serializers.TaskRequest, body),
        foreground=False,
        key=None,
        answer=lambda _: {},
        beside=lambda task: audit_log.record(actor, Action.CREATED, task, model=model.id),
    )
    assert accepted.task is not None
    return accepted.task


def allow_again(actor: Actor) -> bool:
    """Let the console's client in again after it was revoked; tell whether it was.

    Revoking is for good, since the program's token may be in wrong hands. Nobody has this one's, and it gets another.
    """
    fresh = {"token_hash": _unseen(), "previous_token_hash": None, "previous_token_until": None}
    with transaction.atomic():
        allowed = Client.objects.filter(pk=CLIENT_ID, revoked_at__isnull=False).update(revoked_at=None, **fresh)
        if allowed:
            audit_log.record(actor, Action.REINSTATED, Client.objects.get(pk=CLIENT_ID))
    return bool(allowed)


def _client(actor: Actor) -> Client:
    client = Client.objects.filter(pk=CLIENT_ID).first() or _made(actor)
    if client.state != "active":
        raise Conflict(
            f"Trials are tasks of the client {client.name}, which {_INACTIVE[client.state]}",
            code="client_not_active",
            retry=False,
        )
    return client


def _unseen() -> str:
    # Of a token that nobody has seen: from outside nobody can be this client.
    return tokens.digest(tokens.generate())


def _made(actor: Actor) -> Client:
    try:
        with transaction.atomic():
            client = Client.objects.create(id=CLIENT_ID, name=_CLIENT_NAME, token_hash=_unseen(), scopes=[])
            audit_log.record(actor, Action.CREATED, client, scopes=[])
    except IntegrityError:
        # Somebody else has just made it.
        client = Client.objects.get(pk=CLIENT_ID)
    return client
