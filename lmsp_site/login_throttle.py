"""How often people may fail to sign in to the admin: as one user, and all together.

The attempts are in the database, so that a restart forgets none. Addresses do not count: behind a proxy all callers
have one, and an attacker has many.
"""

import logging
import math
import unicodedata
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from lmsp_site.models import LoginAttempt

WINDOW = timedelta(minutes=15)
MOST_AS_ONE_USER = 5
MOST_IN_ALL = 50

logger = logging.getLogger(__name__)


class TooManyAttempts(Exception):
    """Nobody is let in now, by whatever password.

    Args:
        message: what a person is told.
        seconds: after how many it is worth another try.
    """

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


def begin(username: str) -> None:
    """Count an attempt before its password is looked at: of many at once, none more than the limit gets so far.

    Raises:
        TooManyAttempts: the last `WINDOW` has seen as many as there may be; this one is not counted.
    """
    now = timezone.now()
    digest = _digest(username)
    with transaction.atomic():
        attempts = LoginAttempt.objects.filter(at__gt=now - WINDOW)
        LoginAttempt.objects.exclude(at__gt=now - WINDOW).delete()
        same = attempts.filter(user_digest=digest)
        if same.count() >= MOST_AS_ONE_USER:
            raise _refusal("Too many failed sign-ins as this user.", same.earliest("at").at, now)
        if attempts.count() >= MOST_IN_ALL:
            raise _refusal("Too many failed sign-ins.", attempts.earliest("at").at, now)
        LoginAttempt.objects.create(user_digest=digest, at=now)


def succeeded(username: str) -> None:
    """Forget the attempts of a user who has signed in."""
    LoginAttempt.objects.filter(user_digest=_digest(username)).delete()


def _refusal(message: str, earliest: datetime, now: datetime) -> TooManyAttempts:
    seconds = math.ceil((earliest + WINDOW - now).total_seconds())
    # Without the name: people type their password there by mistake.
    logger.warning("sign-in refused: too many attempts", extra={"seconds": seconds})
    minutes = math.ceil(seconds / 60)
    return TooManyAttempts(f"{message} Try again in {minutes} {'minute' if minutes == 1 else 'minutes'}.", seconds)


def _digest(username: str) -> str:
    name = unicodedata.normalize("NFKC", username).casefold()
    return salted_hmac("lmsp_site.login_throttle", name, algorithm="sha256").hexdigest()
