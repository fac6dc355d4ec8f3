"""What is written down of people: that they signed in, failed to, signed out, or were given another password."""

import logging
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.http import HttpRequest

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor, ActorKind

if TYPE_CHECKING:  # The theme has no types of its own.
    from django.contrib.auth.forms import AdminPasswordChangeForm as AnyPasswordForm
    from django.contrib.auth.forms import PasswordChangeForm as OwnPasswordForm
else:
    from unfold.forms import AdminOwnPasswordChangeForm as OwnPasswordForm
    from unfold.forms import AdminPasswordChangeForm as AnyPasswordForm

logger = logging.getLogger(__name__)


def signed_in(request: HttpRequest) -> None:
    """Write down who has signed in; where that fails, so does the request, and the session is not kept."""
    assert isinstance(request.user, User)
    audit_log.record(Actor.admin(request), Action.SIGNED_IN, request.user)


def failed(request: HttpRequest, username: str) -> None:
    """Write down that nobody was let in as `username`, after his password was looked at.

    A name that no user has is not kept: people type their password there by mistake.
    """
    user = User.objects.filter(username=username).first()
    actor = Actor(ActorKind.ADMIN, "", audit_log.peer(request))
    audit_log.record(actor, Action.SIGN_IN_FAILED, user or User(), reason=_reason(user))


def signed_out(actor: Actor, user: User) -> None:
    """Write down who has signed out. That it cannot be written down keeps nobody signed in."""
    try:
        audit_log.record(actor, Action.SIGNED_OUT, user)
    except DatabaseError as error:
        logger.warning("signing out not written down", extra={"user": user.username, "error": str(error)})


def _reason(user: User | None) -> str:
    if user is None:
        return "unknown_user"
    if not user.is_active:
        return "not_active"
    return "wrong_password" if user.is_staff else "no_staff"


class _WrittenDown:
    """A form for a password, which is stored together with its entry.

    Args:
        actor: who sets it.
    """

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._actor = actor

    def save(self, commit: bool = True) -> User:
        """Store the password, and that it was set; neither it nor its hash is in the entry."""
        # Hashing takes long, and is not to be waited for with the lock of the database in hand.
        user: User = super().save(commit=False)  # type: ignore[misc]
        if commit:
            with transaction.atomic():
                user.save(update_fields=["password"])
                audit_log.record(self._actor, Action.PASSWORD_SET, user)
        return user


class OwnPassword(_WrittenDown, OwnPasswordForm):
    """One's own password."""


class AnyPassword(_WrittenDown, AnyPasswordForm):
    """The password of somebody, set by somebody else."""
