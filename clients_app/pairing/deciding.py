"""A person's part in a pairing: finding it by its user code, approving it, denying it."""

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from clients_app.pairing import guesses, user_codes
from clients_app.pairing.guesses import CannotDecide
from clients_app.pairing.models import Pairing, Status
from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor


class UnknownCode(CannotDecide):
    """Nothing waits under this code; whether it was wrong, used or has expired is not told."""

    def __init__(self) -> None:
        super().__init__(
            "Nothing waits under this code. A code is good for ten minutes and for one decision; "
            "compare it with what the program shows, or let the program ask anew."
        )


class ScopesNotWished(CannotDecide):
    """What is to be granted is nothing, or was not asked for."""


def find(typed: str) -> Pairing:
    """Return the pairing that waits under a user code, typed in any case, with the dash or without.

    Raises:
        UnknownCode: there is none; it has been counted as a guess.
        TooManyGuesses: too many codes were wrong lately; this one was not looked at.
    """
    code = user_codes.normalized(typed)
    # One transaction from the look at the counts to the counting: of many tries at once none slips in between.
    with transaction.atomic():
        guesses.refuse_beyond_limit(code)
        found = Pairing.objects.pending(timezone.now()).filter(user_code=code).first() if code else None
        if found is None:
            guesses.count(code)
    if found is None:
        raise UnknownCode
    return found


def approve(pairing: Pairing, actor: Actor, scopes: Sequence[str] | None = None) -> None:
    """Let the program have a token, which is made when it asks for it the next time.

    Args:
        pairing: as it was found; its fields become what is stored.
        actor: who approves it.
        scopes: some of those it wished for; all of them where it is ``None``.

    Raises:
        ScopesNotWished: `scopes` are none, or not only such.
        UnknownCode: it was decided meanwhile, or has expired.
    """
    granted = _narrowed(pairing, scopes)
    _decide(pairing, Status.APPROVED, actor, granted)


def deny(pairing: Pairing, actor: Actor) -> None:
    """Let the program have none.

    Raises:
        UnknownCode: it was decided meanwhile, or has expired.
    """
    _decide(pairing, Status.DENIED, actor, None)


def _narrowed(pairing: Pairing, scopes: Sequence[str] | None) -> list[str]:
    wished: list[str] = pairing.wished_scopes
    if scopes is None:
        return wished
    if beyond := [scope for scope in scopes if scope not in wished]:
        raise ScopesNotWished(f"{pairing.name} did not ask for {beyond[0]}, but for {', '.join(wished)}.")
    if not scopes:
        raise ScopesNotWished("Without a scope a token would be of no use: choose at least one, or deny.")
    return [scope for scope in wished if scope in scopes]


def _decide(pairing: Pairing, status: Status, actor: Actor, granted: list[str] | None) -> None:
    with transaction.atomic():
        now = timezone.now()
        decision = {"status": status, "granted_scopes": granted, "decided_at": now, "decided_by": actor.name[:200]}
        if not Pairing.objects.pending(now).filter(pk=pairing.pk).update(**decision):
            raise UnknownCode
        detail = {"wished_scopes": pairing.wished_scopes, "asked_from": pairing.address}
        if granted is not None:
            detail["granted_scopes"] = granted
        action = Action.DENIED if granted is None else Action.APPROVED
        audit_log.record(actor, action, pairing, **detail)
    for name, value in decision.items():
        setattr(pairing, name, value)
