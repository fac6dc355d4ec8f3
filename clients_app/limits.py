"""How much of everything a client may have: its own limits, and where it has none those of all clients."""

import time
from typing import NamedTuple

from clients_app.models import Client
from lmsp_site.errors import TooManyRequests
from lmsp_site.models import MOST_REQUESTS_PER_MINUTE, ServiceConfig

MEANING = {
    "max_running": "tasks that run at once; the others wait",
    "max_queued": "tasks that wait",
    "max_requests_per_minute": "calls of any kind",
    "max_tokens_per_day": "tokens of prompts and outputs, from midnight to midnight in UTC",
    "max_stored_bytes": "bytes of the inputs and responses of its tasks",
}
"""What each limit bounds, in words."""

NAMES = tuple(MEANING)
MOST = {
    "max_running": 2**31 - 1,
    "max_queued": 2**31 - 1,
    "max_requests_per_minute": MOST_REQUESTS_PER_MINUTE,
    "max_tokens_per_day": 2**63 - 1,
    "max_stored_bytes": 2**63 - 1,
}
"""The greatest number that each can be."""

_KEPT_SECONDS = 1.0
# A client of the official kind waits for so long at most; told to come back later it does not, and tries again at once.
_LONGEST_RETRY_SECONDS = 60


class _Defaults(NamedTuple):
    limits: dict[str, int]
    good_until: float


_defaults = _Defaults({}, 0.0)


def limit(client: Client, name: str) -> int:
    """Return a client's limit, 0 for none. That of all clients is asked for once a second, and not by every request."""
    own: int | None = getattr(client, name)
    return _of_all()[name] if own is None else own


def forget() -> None:
    """Ask for the limits of all clients again."""
    global _defaults
    _defaults = _Defaults({}, 0.0)


def headers(limit: int, remaining: int, reset: float) -> dict[str, str]:
    """Return the headers that tell of a quota, by the names of the IETF draft's first versions, which clients know.

    Args:
        limit: how much there is in all.
        remaining: what is left of it.
        reset: seconds until there is more.
    """
    return {
        "RateLimit-Limit": str(limit),
        "RateLimit-Remaining": str(max(0, remaining)),
        "RateLimit-Reset": str(_whole(reset)),
    }


def refusal(message: str, code: str, limit: int, reset: float) -> TooManyRequests:
    """Return the error of a client that has used a quota up.

    Args:
        message: which quota, and what to do.
        code: what programs know it by.
        limit: how much there was.
        reset: seconds until it is worth another try.
    """
    error = TooManyRequests(message, code=code, retry_after=_whole(reset))
    error.headers |= headers(limit, 0, reset)
    if reset > _LONGEST_RETRY_SECONDS:
        # The official clients try again by themselves, unless they are told not to.
        error.headers["x-should-retry"] = "false"
    return error


def _of_all() -> dict[str, int]:
    global _defaults
    now = time.monotonic()
    if now >= _defaults.good_until:
        config = ServiceConfig.current()
        _defaults = _Defaults({name: getattr(config, name) for name in NAMES}, now + _KEPT_SECONDS)
    return _defaults.limits


def _whole(seconds: float) -> int:
    return max(1, -int(-seconds // 1))
