"""The first half of a pairing: a program asks, and gets two codes."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from math import ceil

from django.db import transaction
from django.db.models import Min
from django.utils import timezone

from clients_app import tokens
from clients_app.pairing import guesses, user_codes
from clients_app.pairing.models import Pairing
from lmsp_site.errors import TooManyRequests

LIFETIME = timedelta(minutes=10)
INTERVAL_SECONDS = 5
MOST_OPEN = 32
_DEVICE_CODE_BYTES = 32


def ask(name: str, wished: Sequence[str], address: str) -> tuple[Pairing, str]:
    """Store a program's wish for a token and return it with its device code, which cannot be read again.

    Args:
        name: what the program calls itself.
        wished: the scopes that it would like to have.
        address: the other end of its connection.

    Raises:
        TooManyRequests: so many wait for a person that nobody could tell them apart (``too_many_pairings``).
    """
    device_code = secrets.token_urlsafe(_DEVICE_CODE_BYTES)
    with transaction.atomic():
        now = timezone.now()
        waiting = Pairing.objects.open(now)
        if waiting.count() >= MOST_OPEN:
            first = waiting.aggregate(first=Min("expires_at"))["first"]
            raise TooManyRequests(
                f"{MOST_OPEN} programs wait for a person already. Deny some in the admin, or ask again later.",
                code="too_many_pairings",
                retry_after=max(ceil((first - now).total_seconds()), 1),
            )
        pairing = Pairing.objects.create(
            name=name,
            wished_scopes=list(wished),
            device_code_hash=tokens.digest(device_code),
            user_code=_free_user_code(),
            address=address,
            interval=INTERVAL_SECONDS,
            created_at=now,
            expires_at=now + LIFETIME,
        )
    return pairing, device_code


def _free_user_code() -> str:
    while True:
        code = user_codes.generate()
        if not (guesses.was_guessed(code) or Pairing.objects.filter(user_code=code).exists()):
            return code
