"""How often people may type a wrong code: counted in the database, for each code and in all, whoever types."""

from datetime import datetime, timedelta
from math import ceil

from django.db.models import F, Q
from django.utils import timezone

from clients_app.pairing.models import GuessCount

WINDOW = timedelta(minutes=10)
"""After so long since the first wrong code a count begins anew: the lifetime of what is guessed at."""

MOST_OF_ONE_CODE = 5
MOST_IN_ALL = 50

_ALL = "*"


class CannotDecide(Exception):
    """A pairing cannot be approved or denied; the message says why and is meant for a person."""


class TooManyGuesses(CannotDecide):
    """No code is looked up for a while.

    Attributes:
        retry_after: seconds until it is worth another try.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(
            f"Too many wrong codes were typed. Try again in {ceil(retry_after / 60)} min, or decide in the admin."
        )
        self.retry_after = retry_after


def refuse_beyond_limit(code: str | None) -> None:
    """Refuse another try; part of the transaction that looks the code up.

    Raises:
        TooManyGuesses: of this code, or in all, there were too many.
    """
    now = timezone.now()
    spent = Q(pk=_ALL, count__gte=MOST_IN_ALL)
    if code is not None:
        spent |= Q(pk=code, count__gte=MOST_OF_ONE_CODE)
    begun = GuessCount.objects.filter(spent, _running(now)).values_list("since", flat=True)
    if latest := max(begun, default=None):
        raise TooManyGuesses(max(ceil((latest + WINDOW - now).total_seconds()), 1))


def count(code: str | None) -> None:
    """Count a wrong code, ``None`` for what is none at all; part of the transaction that has looked it up."""
    now = timezone.now()
    for key in {_ALL, code or _ALL}:
        if not GuessCount.objects.filter(_running(now), pk=key).update(count=F("count") + 1):
            GuessCount.objects.update_or_create(pk=key, defaults={"count": 1, "since": now})


def was_guessed(code: str) -> bool:
    """Tell whether somebody has typed this code lately: it must not become a right one."""
    return GuessCount.objects.filter(_running(timezone.now()), pk=code).exists()


def forget_old() -> int:
    """Remove counts that count no longer; return how many."""
    return GuessCount.objects.exclude(_running(timezone.now())).delete()[0]


def _running(now: datetime) -> Q:
    # One that begins in the future was begun before the clock was set back.
    return Q(since__gt=now - WINDOW, since__lte=now)
