"""The admin's own pages."""

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from lmsp_site import health, login_throttle
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
        cleaned = super().clean()
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
        form = (getattr(answer, "context_data", None) or {}).get("form")
        if isinstance(form, LoginForm) and form.retry_after is not None:
            answer.status_code = 429
            answer["Retry-After"] = str(form.retry_after)
        return answer

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
