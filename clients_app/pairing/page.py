"""GET and POST /pair: where a person types the code that a program shows, and decides. It needs no script."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from clients_app.pairing import deciding, user_codes
from clients_app.pairing.forms import DecisionForm
from clients_app.pairing.guesses import CannotDecide, TooManyGuesses
from clients_app.pairing.models import Pairing
from lmsp_site.audit_log import Actor

# Nothing on the page comes from elsewhere, runs, or is shown inside of another page.
_POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


def may_decide(user: User | AnonymousUser) -> bool:
    """Tell whether a user of the admin may approve and deny pairings."""
    return user.is_active and user.is_staff and user.has_perm("clients_app.change_pairing")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def pair(request: HttpRequest) -> HttpResponse:
    """Ask for the code, show what waits under it, and take the decision."""
    if not (request.user.is_active and request.user.is_staff):
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    if not may_decide(request.user):
        return _page(request, 403, refusal="You are logged in, but may not approve programs; ask an administrator.")
    if request.method != "POST":
        # Only filled in: a link must not be able to try a code, and the person is to compare it.
        return _page(request, 200, ask=True, typed=request.GET.get("user_code", "")[:20])
    typed = request.POST.get("user_code", "")
    try:
        pairing = deciding.find(typed)
    except CannotDecide as refusal:
        return _refused(request, refusal, ask=True, typed=typed[:20])
    if "decision" not in request.POST:
        return _page(request, 200, **_shown(pairing))
    try:
        outcome = DecisionForm(pairing, request.POST).carry_out(Actor.admin(request))
    except deciding.ScopesNotWished as refusal:
        return _refused(request, refusal, **_shown(pairing))
    except CannotDecide as refusal:
        return _refused(request, refusal, ask=True, typed=typed[:20])
    messages.success(request, outcome)
    return redirect("pair")


def _shown(pairing: Pairing) -> dict[str, Any]:
    return {
        "pairing": pairing,
        "user_code": user_codes.shown(pairing.user_code),
        "form": DecisionForm(pairing),
    }


def _refused(request: HttpRequest, refusal: CannotDecide, **context: Any) -> HttpResponse:
    if not isinstance(refusal, TooManyGuesses):
        return _page(request, 400, refusal=str(refusal), **context)
    answer = _page(request, 429, refusal=str(refusal), **context)
    answer["Retry-After"] = str(refusal.retry_after)
    return answer


def _page(request: HttpRequest, status: int, **context: Any) -> HttpResponse:
    answer = render(request, "clients_app/pair.html", context, status=status)
    answer["Content-Security-Policy"] = _POLICY
    return answer
