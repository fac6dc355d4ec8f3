"""How many calls a client makes in a minute, counted in the memory of the one process that serves them all.

A restart begins anew: to keep it would cost a write for each call. Only clients that have a limit are counted, and only
what is let in, so that who tries too often is let in again as soon as a minute has room.
"""

import threading
import time
from collections import deque

from clients_app import limits
from clients_app.models import Client

_SECONDS = 60.0
_NAME = "max_requests_per_minute"


class LastMinute:
    """When the calls of the last minute have come; moments are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()

    def count(self, now: float) -> int:
        """Return how many there were."""
        while self._moments and self._moments[0] <= now - _SECONDS:
            self._moments.popleft()
        return len(self._moments)

    def wait(self, limit: int, now: float) -> float:
        """Return for how many seconds there is no room for another call; what is let in is never more than `limit`."""
        count = self.count(now)
        # The limit may have been lowered since they came.
        return self._moments[count - limit] + _SECONDS - now if count >= limit else 0.0

    def add(self, now: float) -> None:
        """Let a call in."""
        self._moments.append(now)

    def reset(self, now: float) -> float:
        """Return in how many seconds one of them does not count any more."""
        return self._moments[0] + _SECONDS - now


_lock = threading.Lock()
_minutes: dict[str, LastMinute] = {}


def take(client: Client) -> dict[str, str]:
    """Count a call of `client`; return the headers that tell it what is left, none where it has no limit.

    Raises:
        TooManyRequests: in the last minute it has made as many calls as it may (``rate_limit_exceeded``).
    """
    limit = limits.limit(client, _NAME)
    if not limit:
        return {}
    with _lock:
        minute = _minutes.setdefault(client.pk, LastMinute())
        now = time.monotonic()
        wait = minute.wait(limit, now)
        if not wait:
            minute.add(now)
            return limits.headers(limit, limit - minute.count(now), minute.reset(now))
    raise limits.refusal(
        f"This client may make {limit} requests a minute, and has. Wait as long as Retry-After says and send fewer; "
        "the service's operator can allow more.",
        "rate_limit_exceeded",
        limit,
        wait,
    )


def used(client: Client) -> int | None:
    """Return how many calls of the last minute were counted; ``None`` where none is."""
    if not limits.limit(client, _NAME):
        return None
    with _lock:
        return _minutes.setdefault(client.pk, LastMinute()).count(time.monotonic())
