"""The admin's own pages."""

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse

from lmsp_site import health, login_throttle, signing_in
from lmsp_site.audit_log import Actor
from tasks_app.board.permission import may_watch

if TYPE_CHECKING:  # The theme has no types of its own.
    from django.contrib.admin import AdminSite
    from django.contrib.admin.forms import AdminAuthenticationForm as AuthenticationForm
else:
    from unfold.forms import AuthenticationForm
    from unfold.sites import UnfoldAdminSite as AdminSite


class LoginForm(AuthenticationForm):
    """User and password, the latter not looked at after too many failures; `retry_after` says for how many seconds."""

    retry_after: int | None = None

    def clean(self) -> dict[str, Any]:
        """Check user and password."""
        username = self.cleaned_data.get("username")
        if not (username and self.cleaned_data.get("password")):
            return super().clean()
        try:
            login_throttle.begin(username)
        except login_throttle.TooManyAttempts as refusal:
            self.retry_after = refusal.seconds
            raise ValidationError(str(refusal), code="too_many_attempts") from None
        try:
            cleaned = super().clean()
        except ValidationError:
            assert self.request is not None
            signing_in.failed(self.request, username)
            raise
        login_throttle.succeeded(username)
        return cleaned


class ServiceAdminSite(AdminSite):
    """The admin, whose start page says what hinders the service."""

    site_header = site_title = "LMSP service"
    index_title = "Dashboard"
    index_template = "lmsp_site/dashboard.html"
    login_form = LoginForm

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what every page is made with; the colours are in a file, since no style may stand in a page."""
        return {**super().each_context(request), "colors": None}

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the form, or sign in; 429 after too many failures."""
        answer = super().login(request, extra_context)
        # Only the form that was right leads on; who fails may be signed in from before.
        if request.method == "POST" and answer.status_code == HTTPStatus.FOUND:
            signing_in.signed_in(request)
        form = (getattr(answer, "context_data", None) or {}).get("form")
        if isinstance(form, LoginForm) and form.retry_after is not None:
            answer.status_code = 429
            answer["Retry-After"] = str(form.retry_after)
        return answer

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Sign out."""
        user, actor = request.user, Actor.admin(request)
        answer = super().logout(request, extra_context)
        if request.method == "POST" and isinstance(user, User):
            signing_in.signed_out(actor, user)
        return answer

    # What is sent is answered by a redirect, of which Django's own annotation knows nothing.
    def password_change(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        """Have somebody change the password that is theirs."""
        view = PasswordChangeView.as_view(
            form_class=partial(signing_in.OwnPassword, actor=Actor.admin(request)),
            success_url=reverse("admin:password_change_done"),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        return view(request)

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the dashboard, and what ``/readyz`` says; to those who may watch, the page goes on telling it."""
        watches = may_watch(request.user)
        faults, remarks = list(filter(None, health.checks().values())), list(health.remarks().values())
        if not watches:
            for fault in faults:
                messages.error(request, fault)
            for remark in remarks:
                messages.warning(request, remark)
        context = {"watches": watches, "faults": faults, "remarks": remarks}
        return super().index(request, {**context, **(extra_context or {})})
