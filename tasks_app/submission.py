"""Accepting a request: key, task, events, snapshot and job, in one transaction (R1)."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shutil import disk_usage
from typing import Any

from django.conf import settings

from clients_app.models import Client
from lmsp_site import group_commit, stopping
from lmsp_site.errors import InsufficientStorage, InvalidRequest, Unavailable
from lmsp_site.ids import moment_of, new_suffix
from lmsp_site.models import RestartPolicy, ServiceConfig
from models_app import announcing, catalog, tokenizers
from models_app.models import LanguageModel
from tasks_app import (
    conversation,
    idempotency,
    inputs,
    lifecycle,
    queue,
    quotas,
    reading,
    responses,
    snapshot,
)
from tasks_app.items import Item
from tasks_app.models import IdempotencyKey, Response, Task

# Below 2^53, so that every JSON reader sees the seed that was used.
_SEEDS = 2**53
_RETRY_AFTER_STOP_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a request: a new task, or the one an earlier request with the same key has made."""

    task: Task | None
    key: IdempotencyKey | None = None

    @property
    def replayed(self) -> bool:
        """Whether the task is an earlier request's."""
        return self.key is not None


def submit(
    client: Client,
    fields: dict[str, Any],
    *,
    foreground: bool,
    key: idempotency.Claim | None,
    answer: Callable[[Task], dict[str, Any]],
    said_before: Sequence[Item] | None = None,
    beside: Callable[[Task], None] | None = None,
) -> Accepted:
    """Accept a validated request.

    Args:
        client: who asks.
        fields: from ``serializers.read``.
        foreground: whether the caller waits for the result of this very call.
        key: its idempotency key.
        answer: makes the body of a 202 from the new task, to be stored with the key.
        said_before: the conversation before the input, where the caller itself remembers the previous response.
        beside: writes what else is to be stored with a new task, in its transaction.

    Raises:
        ProtocolError: unknown model, a conversation that cannot be gone on with, a prompt that does not fit, a
            deadline that has passed, a reused key, no room, a quota that is used up, a service that is stopping.
            Nothing is stored.
    """
    if key and (earlier := idempotency.find(key)):
        # What was accepted once is answered whatever a new request would be refused for by now.
        return Accepted(earlier.task, earlier)
    _check_stop()
    _check_room()
    quotas.check(client)
    expires_at = _deadline(fields)
    model = catalog.find(fields["model"])
    _require_tokens(model, fields["logit_bias"] or {})
    # Before the transaction: tokenizing a long prompt must not hold the write lock.
    turn = conversation.turn(model, fields, conversation.resolve(client, fields, said_before))
    suffix = new_suffix()
    task = Task(
        id=f"task_{suffix}",
        client=client,
        on_restart=fields["on_restart"] or _default_policy(foreground=foreground, keyed=key is not None),
        priority=fields["priority"],
        expires_at=expires_at,
        model=model.id,
        metadata=fields["metadata"] or {},
        input_tokens=len(turn.prompt),
        ends_with_caller=foreground and key is None,
        # What the id says: lists find tasks of a time by their ids.
        created_at=moment_of(suffix),
    )
    request = with_defaults(fields, model, background=not foreground) | {
        "dropped_items": turn.dropped,
        "reading": _reading(fields, turn),
    }
    response = Response(
        id=f"resp_{suffix}",
        task=task,
        request=request,
        store=fields["store"] is not False,
        created_at=task.created_at,
    )

    if foreground:
        # Somebody waits: the engine can begin to read before this is on disk.
        announcing.prompt(model, turn.prompt)

    def write() -> Accepted:
        if key and (earlier := idempotency.find(key)):
            return Accepted(earlier.task, earlier)
        quotas.check(client)
        lifecycle.birth(task, response)
        inputs.store(task, turn.items)
        snapshot.create(task, turn.prompt, request["seed"])
        if key:
            idempotency.store(key, task, status=None if foreground else 202, body=None if foreground else answer(task))
        queue.ring()
        if beside:
            beside(task)
        return Accepted(task)

    return group_commit.write(write)


def _default_policy(*, foreground: bool, keyed: bool) -> str:
    if foreground:
        # Without a key nobody could find the result again.
        return RestartPolicy.RESUME if keyed else RestartPolicy.FAIL
    return RestartPolicy(ServiceConfig.setting("default_on_restart"))


def with_defaults(fields: dict[str, Any], model: LanguageModel, *, background: bool) -> dict[str, Any]:
    """Return what the response object echoes and the worker runs by."""
    given = {name: fields[name] for name in responses.DEFAULTS if fields.get(name) is not None}
    return {
        **responses.DEFAULTS,
        "seed": secrets.randbelow(_SEEDS),
        **model.sampling,
        **given,
        "background": background,
    }


def _reading(fields: dict[str, Any], turn: conversation.Turn) -> dict[str, Any] | None:
    """Return how the answer will be read, and whether its calls follow their schemas."""
    return None if turn.reading is None else turn.reading | {"enforced": reading.are_enforced(fields)}


def _require_tokens(model: LanguageModel, biases: dict[str, float]) -> None:
    """Refuse a bias for a token that the model does not have: it was meant for another model."""
    if biases and (unknown := [token for token in biases if int(token) >= tokenizers.of(model).size]):
        raise InvalidRequest(
            f"logit_bias: {model.id} has no token {unknown[0]}; its ids end at {tokenizers.of(model).size - 1}.",
            param="logit_bias",
            code="invalid_value",
        )


def _deadline(fields: dict[str, Any]) -> datetime | None:
    """Return when the task expires; here and not where fields are read, since an earlier request's may have passed."""
    if fields.get("expires_at") is None:
        return None
    deadline = datetime.fromtimestamp(fields["expires_at"], UTC)
    if deadline <= datetime.now(UTC):
        raise InvalidRequest("expires_at: Must lie in the future.", param="expires_at", code="invalid_value")
    return deadline


def _check_stop() -> None:
    """Refuse new work that nobody would begin before the next start, where it could only fail or wait."""
    if stopping.is_announced(settings.LMSP.run_dir):
        raise Unavailable(
            "The service is stopping and takes no new work; nothing was stored. Try again when it has restarted.",
            code="stopping",
            retry_after=_RETRY_AFTER_STOP_SECONDS,
        )


def _check_room() -> None:
    """Refuse new work while the disk has less than the reserve that running work needs to finish."""
    if disk_usage(settings.LMSP.data_dir).free < settings.LMSP.min_free_bytes:
        raise InsufficientStorage(
            "The disk that holds the service's data is almost full. Free some space; nothing was stored.",
            retry_after=30,
        )
