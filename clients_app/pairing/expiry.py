"""What is left of pairings that nobody can come back to."""

from datetime import timedelta

from django.utils import timezone

from clients_app.pairing import guesses
from clients_app.pairing.models import Pairing

_KEPT = timedelta(hours=1)
"""So long a program that polls on is told that its code has expired, and people see in the admin what became of it."""


def remove_expired(most: int) -> int:
    """Remove pairings whose codes expired an hour ago or earlier, whatever became of them, and old counts of guesses.

    Args:
        most: how many pairings at most.

    Returns:
        The number of pairings that were removed. Clients that came of them stay.
    """
    guesses.forget_old()
    old = Pairing.objects.filter(expires_at__lte=timezone.now() - _KEPT).order_by("expires_at")
    return Pairing.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:most])).delete()[0]
