"""What a client has of what it may have, and the refusal of new tasks where that is used up.

Running tasks are no reason to refuse: ``claim_order`` lets those wait that would be too many. Requests are counted by
``clients_app.request_rate``. Where there are no limits, asking costs nothing.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from clients_app import limits, request_rate
from clients_app.models import Client
from lmsp_site.errors import TooManyRequests
from tasks_app import usage
from tasks_app.states import CLAIMED, Status

# How soon there may be room again, where nobody can know.
_SOON_SECONDS = 5

_STATES = ", ".join(f"'{status}'" for status in sorted(CLAIMED))
_QUEUED = f"""
    SELECT count(*) FROM tasks INDEXED BY waiting_tasks_of_client
    WHERE client_id = %(client)s AND status = '{Status.QUEUED}' AND finished_at IS NULL
"""  # noqa: S608
_CLAIMED = f"""
    SELECT count(*) FROM tasks INDEXED BY unfinished_by_claim_order
    WHERE status IN ({_STATES}) AND finished_at IS NULL AND client_id = %(client)s
"""  # noqa: S608
_SUM = "coalesce(sum(input_tokens + output_tokens), 0)"
_TOKENS = f"""
    SELECT (SELECT {_SUM} FROM usage WHERE client_id = %(client)s AND day = %(day)s)
        + ({_QUEUED.replace("count(*)", _SUM)}) + ({_CLAIMED.replace("count(*)", _SUM)})
"""  # noqa: S608
_STORED = "SELECT coalesce(sum(bytes), 0) FROM client_storage WHERE client_id = %(client)s"
_USED = {
    "max_running": _CLAIMED,
    "max_queued": _QUEUED,
    "max_tokens_per_day": _TOKENS,
    "max_stored_bytes": _STORED,
}
_CHECKED = ("max_queued", "max_tokens_per_day", "max_stored_bytes")


def check(client: Client) -> None:
    """Refuse another task to a client that has used up a quota.

    In the transaction that accepts a task nobody can be faster. It is asked before that, too: there a refusal keeps
    nobody waiting.

    Raises:
        TooManyRequests: ``too_many_queued_tasks``, ``insufficient_quota`` of tokens, ``storage_quota_exceeded``.
    """
    for name in _CHECKED:
        limit = limits.limit(client, name)
        if limit and used(client, name) >= limit:
            raise _refusal(name, limit)


def used(client: Client, name: str) -> int:
    """Return what a client has of a quota now; of tokens, those of unfinished tasks too."""
    with connection.cursor() as cursor:
        cursor.execute(_USED[name], {"client": client.pk, "day": usage.today().isoformat()})
        found: int = cursor.fetchone()[0]
    return found


def overview(client: Client) -> dict[str, Any]:
    """Return each quota as the API shows it: what there is, what is used, what is left; ``None`` where no limit is."""
    return {name.removeprefix("max_"): _entry(limits.limit(client, name), _used(client, name)) for name in limits.NAMES}


def _used(client: Client, name: str) -> int | None:
    return request_rate.used(client) if name == "max_requests_per_minute" else used(client, name)


def _entry(limit: int, used: int | None) -> dict[str, int | None]:
    remaining = max(0, limit - used) if limit and used is not None else None
    return {"limit": limit or None, "used": used, "remaining": remaining}


def _refusal(name: str, limit: int) -> TooManyRequests:
    match name:
        case "max_queued":
            return limits.refusal(
                f"{limit} tasks of this client wait, as many as may. Try again when some have begun, or cancel some; "
                "nothing was stored.",
                "too_many_queued_tasks",
                limit,
                _SOON_SECONDS,
            )
        case "max_tokens_per_day":
            now = datetime.now(UTC)
            midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            return limits.refusal(
                f"The {limit} tokens that this client may use in a day (UTC) are used up, or taken by its unfinished "
                "tasks. Go on tomorrow, or ask the service's operator for more; nothing was stored.",
                "insufficient_quota",
                limit,
                (midnight - now).total_seconds(),
            )
    return limits.refusal(
        f"The tasks of this client have the {limit} bytes that may be stored for it. Delete some, or ask the service's "
        "operator for more; nothing was stored.",
        "storage_quota_exceeded",
        limit,
        # Only the client can make room, and retention.
        3600,
    )
