"""The second half of a pairing: the program polls, and gets its token once (RFC 8628, 3.4 and 3.5)."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from clients_app import tokens
from clients_app.models import Client
from clients_app.pairing.models import Pairing, Status
from clients_app.pairing.opening import LIFETIME
from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor
from lmsp_site.errors import InvalidRequest

_SLOWER_SECONDS = 5
# Beyond the lifetime of its code a greater interval would make no difference, and each growth is a write.
_LONGEST_INTERVAL = int(LIFETIME.total_seconds())
# Two polls are not equally long on their way.
_TOLERANCE = timedelta(seconds=0.5)


def collect(device_code: str, address: str) -> tuple[Client, str]:
    """Return the client and its token, which is made now and cannot be read again.

    Args:
        device_code: what ``opening.ask`` has returned.
        address: the other end of the program's connection.

    Raises:
        InvalidRequest: there is no token (yet); its code is one of RFC 8628's: ``authorization_pending``,
            ``slow_down``, ``access_denied``, ``expired_token``, or ``invalid_grant`` for a device code that is unknown
            or has been used.
    """
    pairing = Pairing.objects.filter(device_code_hash=tokens.digest(device_code)).first()
    if pairing is None or pairing.status == Status.COLLECTED:
        raise _used_or_unknown()
    if pairing.status == Status.DENIED:
        raise InvalidRequest("A person has denied this pairing.", code="access_denied")
    now = timezone.now()
    if pairing.expires_at <= now:
        raise InvalidRequest(
            "The device code has expired before anybody approved it; ask for another with POST /v1/pairing.",
            code="expired_token",
        )
    if pairing.status == Status.APPROVED:
        return _hand_out(pairing, address)
    raise _not_yet(pairing, now)


def _hand_out(pairing: Pairing, address: str) -> tuple[Client, str]:
    """Make client and token in one transaction, unless another poll has been faster."""
    with transaction.atomic():
        approved = Pairing.objects.filter(pk=pairing.pk, status=Status.APPROVED)
        if not approved.update(status=Status.COLLECTED):
            raise _used_or_unknown()
        granted: list[str] = pairing.granted_scopes or []
        client, token = Client.pair(pairing.name, granted)
        Pairing.objects.filter(pk=pairing.pk).update(client=client)
        audit_log.record(
            Actor.client(client.id, address),
            Action.PAIRED,
            client,
            scopes=granted,
            pairing=pairing.id,
            approved_by=pairing.decided_by,
        )
    return client, token


def _not_yet(pairing: Pairing, now: datetime) -> InvalidRequest:
    """Note the poll and return its answer; one that comes too soon makes the interval longer."""
    last, interval = pairing.last_polled_at, pairing.interval
    due = last is None or not timedelta(0) <= now - last < timedelta(seconds=interval) - _TOLERANCE
    pending = Pairing.objects.filter(pk=pairing.pk, status=Status.PENDING)
    # Of two at once the second has come too soon.
    if due and pending.filter(last_polled_at=last).update(last_polled_at=now):
        return _wait(
            "authorization_pending", "Nobody has approved the user code yet; poll again after the interval.", interval
        )
    slower = min(interval + _SLOWER_SECONDS, _LONGEST_INTERVAL)
    if slower != interval:
        pending.filter(interval=interval).update(interval=slower)
    return _wait("slow_down", f"Polled too soon; from now on wait {slower} seconds between two polls.", slower)


def _wait(code: str, message: str, seconds: int) -> InvalidRequest:
    return InvalidRequest(message, code=code, headers={"Retry-After": str(seconds)})


def _used_or_unknown() -> InvalidRequest:
    return InvalidRequest(
        "The device code is unknown, or its token has been handed out; ask for another with POST /v1/pairing.",
        code="invalid_grant",
        param="device_code",
    )
