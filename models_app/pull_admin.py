"""Pulls in the admin: begun, watched, and gone on with."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from lmsp_site import audit_log
from lmsp_site.admin_tables import AuditedAdmin
from lmsp_site.audit_log import Action, Actor
from models_app import naming, pull_records
from models_app.models import LanguageModel, ModelPull, PullState

_GB, _MB = 1e9, 1e6
_WHAT_BEGINS = (
    "Saving begins the download from the Hugging Face hub, by a process of its own. Its page shows license and "
    "progress; what was interrupted goes on where it was."
)
# Of the newest a page tells as they change; who has more of them has them on other pages.
_MOST_TOLD = 100


class PullForm(forms.ModelForm):
    """What to pull, and what to call it."""

    class Meta:
        model = ModelPull
        fields = ("source", "name", "revision")

    def clean_source(self) -> str:
        """Take what names a repository, and no path or address."""
        source: str = self.cleaned_data["source"]
        if not pull_records.is_source(source):
            raise forms.ValidationError("Must be OWNER/REPOSITORY, or OWNER/REPOSITORY:FILE.")
        return source

    def clean_name(self) -> str:
        """Take what can be a model's id."""
        name: str = self.cleaned_data["name"]
        if not naming.is_name(name):
            raise forms.ValidationError("Must have letters, digits and . _ : / - only.")
        return name

    def clean_revision(self) -> str:
        """Take what can be a name of git's."""
        revision: str = self.cleaned_data["revision"]
        if revision and not naming.is_name(revision):
            raise forms.ValidationError("Must have letters, digits and . _ / - only.")
        return revision


@admin.register(ModelPull)
class ModelPullAdmin(AuditedAdmin):
    """Downloads from the hub, newest first, each with how far it is."""

    form = PullForm
    list_display = ("source", "name", "shown_state", "progress", "license", "created_at")
    list_filter = ("state",)
    search_fields = ("source", "name", "license")
    search_help_text = "A part of a repository's name, of an id, or of a license"
    actions = ("go_on",)
    readonly_fields = ("license", "created_at", "updated_at")
    nothing_yet = (
        "No model was asked for yet. The button with the plus downloads one from the Hugging Face hub and registers "
        "it; what lies on this machine already is added on the page of the models."
    )

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Show what is known of it once there is something to show."""
        return ("source", "name", "revision", *(self.readonly_fields if obj else ()))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Say what a new one begins."""
        said = "" if obj else _WHAT_BEGINS
        return [(None, {"fields": self.get_fields(request, obj), "description": said})]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A pull is what it was begun as; whoever may look at the list may act on it by ``go_on`` if he may add."""
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Only one by one, and not while it is carried out: it would go on, and nobody would see it."""
        return (
            isinstance(obj, ModelPull)
            and super().has_delete_permission(request, obj)
            and not pull_records.is_carried_out(obj)
        )

    def save_model(self, request: HttpRequest, obj: Model, form: forms.ModelForm, change: bool) -> None:
        """Begin it, once its row can be seen by the process that carries it out."""
        super().save_model(request, obj, form, change)
        assert isinstance(obj, ModelPull)
        transaction.on_commit(lambda: pull_records.start(obj))

    @admin.display(description="state", ordering="state")
    def shown_state(self, pull: ModelPull) -> SafeString:
        """How it is, which the page keeps up to date."""
        state = _state(pull)
        return format_html(
            '<span data-begun="{}"><span class="state {}" data-cell="state">{}</span></span>', pull.pk, state, state
        )

    @admin.display(description="progress")
    def progress(self, pull: ModelPull) -> SafeString:
        """How much has come; of one that has failed, why."""
        state = _state(pull)
        note = _note(pull, state)
        bar = '<progress data-cell="part" max="100" value="{}" aria-label="How much has come"'
        bar += "></progress>" if state == PullState.RUNNING else " hidden></progress>"
        said = ' <span class="cut" data-cell="note" title="{}">{}</span>'
        return format_html(bar + said, _part(pull), note, note)

    @admin.action(description="Go on with selected pulls", permissions=["add"])
    def go_on(self, request: HttpRequest, pulls: QuerySet[ModelPull]) -> None:
        """Start again what was interrupted or has failed; what has come is not asked for again."""
        idle = [pull for pull in pulls if _may_go_on(pull)]
        for pull in idle:
            audit_log.record(Actor.admin(request), Action.CHANGED, pull, done="gone on with")
            pull_records.start(pull)
        if not idle:
            self.message_user(request, "No pull goes on: what is completed or under way needs nothing.")
            return
        sources = ", ".join(pull.source for pull in idle)
        said = f"{sources} {'goes' if len(idle) == 1 else 'go'} on."
        self.message_user(request, said, messages.SUCCESS)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show how far it is above what was asked for."""
        pull = self.get_object(request, unquote(object_id))
        context = dict(extra_context or {})
        if isinstance(pull, ModelPull):
            (told,) = _told([pull])
            context |= {"told": told, "may_go_on": self.has_add_permission(request) and _may_go_on(pull)}
        return super().change_view(request, object_id, form_url, context)

    def get_urls(self) -> list[URLPattern]:
        """Add where pages ask how far pulls are, and where the button leads."""
        progress = self.admin_site.admin_view(require_GET(never_cache(self._progress)))
        go_on = self.admin_site.admin_view(require_POST(self._go_on_one))
        return [
            path("progress/", progress, name="models_app_modelpull_progress"),
            path("<path:object_id>/go-on/", go_on, name="models_app_modelpull_go_on"),
            *super().get_urls(),
        ]

    def _progress(self, request: HttpRequest) -> JsonResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return JsonResponse({"begun": _told(ModelPull.objects.all()[:_MOST_TOLD])})

    def _go_on_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        self.go_on(request, ModelPull.objects.filter(pk=unquote(object_id)))
        return HttpResponseRedirect(reverse("admin:models_app_modelpull_change", args=[object_id]))


def _state(pull: ModelPull) -> str:
    if pull.state == PullState.RUNNING and not pull_records.is_carried_out(pull):
        return "interrupted"
    return str(pull.state)


def _may_go_on(pull: ModelPull) -> bool:
    return pull.state != PullState.COMPLETED and not pull_records.is_carried_out(pull)


def _told(pulls: Iterable[ModelPull]) -> list[dict[str, Any]]:
    """Return how far pulls are, as pages show it; ``part`` of 100, and ``page`` of a model that has come."""
    found = [(pull, _state(pull)) for pull in pulls]
    come = [pull.name for pull, state in found if state == PullState.COMPLETED]
    known = set(LanguageModel.objects.filter(pk__in=come).values_list("pk", flat=True))
    return [
        {
            "key": str(pull.pk),
            "state": state,
            "part": _part(pull),
            "note": _note(pull, state),
            "page": reverse("admin:models_app_languagemodel_change", args=[quote(pull.name)])
            if state == PullState.COMPLETED and pull.name in known
            else "",
        }
        for pull, state in found
    ]


def _part(pull: ModelPull) -> int:
    return round(100 * pull.done_bytes / pull.total_bytes) if pull.total_bytes else 0


def _note(pull: ModelPull, state: str) -> str:
    if state == PullState.FAILED:
        return pull.error
    if state == PullState.COMPLETED:
        return _size(pull.total_bytes)
    come = f"{_size(pull.done_bytes)} of {_size(pull.total_bytes)}" if pull.total_bytes else "asking the hub"
    return f"{come}; go on with it, and what has come is kept" if state == "interrupted" else come


def _size(count: int) -> str:
    return f"{count / _GB:.2f} GB" if count >= _GB else f"{count / _MB:.0f} MB"
