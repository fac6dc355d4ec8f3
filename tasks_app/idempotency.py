"""Same key, same task: the IETF Idempotency-Key header, bound to client and endpoint."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import rfc8785
from django.db import connection

from clients_app.models import Client
from lmsp_site.errors import IdempotencyKeyReused, InvalidRequest
from lmsp_site.models import ServiceConfig
from tasks_app.models import IdempotencyKey, Task

MAX_LENGTH = 255
_AWAITING = "SELECT task_id FROM idempotency_keys WHERE result_status IS NULL AND task_id IN ({})"
_STORE_RESULT = (
    "UPDATE idempotency_keys SET result_status = 200, result_body = %s WHERE task_id = %s AND result_status IS NULL"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A key as a request brings it, with the digest of the request it belongs to."""

    client: Client
    endpoint: str
    key: str
    digest: str

    @classmethod
    def of(cls, client: Client, endpoint: str, key: str | None, body: dict[str, Any]) -> "Claim | None":
        """Read the header `key` of a request with the parsed `body`; ``None`` where it was not sent.

        The digest is taken before defaults are filled in, over the canonical JSON (RFC 8785).

        Raises:
            InvalidRequest: the key is empty, too long, or has characters that no header should have.
        """
        if key is None:
            return None
        if not 0 < len(key) <= MAX_LENGTH or not key.isprintable():
            raise InvalidRequest(
                f"An Idempotency-Key has 1 to {MAX_LENGTH} printable characters.", code="invalid_idempotency_key"
            )
        return cls(client, endpoint, key, hashlib.sha256(rfc8785.dumps(body)).hexdigest())


def find(claim: Claim) -> IdempotencyKey | None:
    """Return the row an earlier request with this key has left; an expired one is forgotten.

    Raises:
        IdempotencyKeyReused: the earlier request was a different one.
    """
    row = (
        IdempotencyKey.objects.select_related("task__response")
        .filter(client=claim.client, endpoint=claim.endpoint, key=claim.key)
        .first()
    )
    if row is None:
        return None
    if row.expires_at <= datetime.now(UTC):
        row.delete()
        return None
    if row.request_digest != claim.digest:
        raise IdempotencyKeyReused(
            "This Idempotency-Key came with a different request before. Use a new key for a new request."
        )
    return row


def store(claim: Claim, task: Task, *, status: int | None, body: dict[str, Any] | None) -> None:
    """Store the key; part of the transaction that accepts the task.

    Args:
        claim: the key and its request.
        task: what the request has made.
        status: HTTP status to be replayed; ``None`` while a synchronous request is running.
        body: JSON body to be replayed, with `status`.
    """
    lifetime = timedelta(hours=ServiceConfig.setting("idempotency_hours"))
    IdempotencyKey.objects.create(
        client=claim.client,
        endpoint=claim.endpoint,
        key=claim.key,
        request_digest=claim.digest,
        task=task,
        result_status=status,
        result_body=body,
        expires_at=datetime.now(UTC) + lifetime,
    )


def awaiting_results(task_ids: Sequence[str]) -> set[str]:
    """Return those of the tasks whose synchronous requests came with a key; none of them has a result yet."""
    if not task_ids:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_AWAITING.format(", ".join(["%s"] * len(task_ids))), task_ids)
        return {task_id for (task_id,) in cursor.fetchall()}


def store_results(results: Sequence[tuple[str, str]]) -> None:
    """Give the keys of synchronous requests their results; part of the terminal transaction.

    Args:
        results: encoded responses, with the ids of their finished tasks.
    """
    with connection.cursor() as cursor:
        cursor.executemany(_STORE_RESULT, results)
