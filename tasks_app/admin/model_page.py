"""The catalogue as a person looks after it: each model's state as it changes, what its files say, and a trial."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from lmsp_site.admin_tables import UncountedList
from lmsp_site.audit_log import Actor
from lmsp_site.errors import ProtocolError
from lmsp_site.models import ServiceConfig
from models_app import listing, standing
from models_app.models import LanguageModel
from tasks_app import managing, statistics, trying
from tasks_app.admin.adding_page import AddingAdmin
from tasks_app.console import figures
from tasks_app.models import Task

_TRY = "tasks_app.change_task"
_REMOVE = "models_app.delete_languagemodel"
_MOST_TOKENS = 4096
_UNITS = ((10**9, "billion"), (10**6, "million"))


class TryForm(forms.Form):
    """What to ask a model, and how long the answer may become."""

    text = forms.CharField(max_length=20_000, strip=False)
    max_output_tokens = forms.IntegerField(min_value=1, max_value=_MOST_TOKENS)


class StandingList(UncountedList):
    """A list of models, each with how it is now."""

    def get_results(self, request: HttpRequest) -> None:
        """Look at all of them once."""
        super().get_results(request)
        now = _standing()
        self.result_list = list(self.result_list)
        for model in self.result_list:
            model.now = now.get(model.pk, {})


# In the place of the catalogue's own page, which knows nothing of tasks.
admin.site.unregister(LanguageModel)


@admin.register(LanguageModel)
class ModelPageAdmin(AddingAdmin):
    """Every model with its state, memory and speed as they are; a page for each, where it can be tried."""

    list_display = ("id", "state", "memory", "speed", "quantization", "on_disk", "license")
    search_help_text = "A part of an id, an alias, an architecture or a base model"
    nothing_yet = (
        "There is no model yet. The button with the plus adds one that lies on this machine; a pull brings one from "
        "the hub."
    )
    change_form_template = "tasks_app/admin/model.html"
    change_list_template = "tasks_app/admin/model_list.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Show how the models are."""
        return StandingList

    @admin.display(description="state")
    def state(self, model: LanguageModel) -> SafeString:
        """What it is now; of one that cannot be used, why."""
        return format_html(
            '<span data-model="{}" title="{}"><span class="state {}" data-cell="state">{}</span></span>',
            model.pk,
            *(_of(model, name) for name in ("note", "state", "state")),
        )

    @admin.display(description="in memory")
    def memory(self, model: LanguageModel) -> SafeString:
        """What its engine has in memory."""
        return format_html('<span data-cell="memory">{}</span>', _size(_of(model, "memory_bytes")))

    @admin.display(description="tokens a second")
    def speed(self, model: LanguageModel) -> SafeString:
        """What a task of it has seen so far, as the mean."""
        return format_html('<span data-cell="speed">{}</span>', _of(model, "tokens_per_second") or "-")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what is known of the model, and what can be done with it, above what may be set."""
        model = LanguageModel.objects.filter(pk=unquote(object_id)).first()
        context = dict(extra_context or {})
        if model is not None:
            now = _standing()[model.pk]
            context |= {
                "now": {**now, "memory": _size(now["memory_bytes"])},
                "facts": _facts(model),
                "files": [{**entry, "size": _size(entry["size"])} for entry in model.files],
                "may_load": self.has_load_permission(request),
                "may_remove": request.user.has_perm(_REMOVE),
                "size": _size(model.size_bytes),
                "may_try": request.user.has_perm(_TRY),
                "most_tokens": _MOST_TOKENS,
                "subtitle": None,
                "show_save_and_add_another": False,
            }
        return super().change_view(request, object_id, form_url, context)

    def get_urls(self) -> list[URLPattern]:
        """Add where the trial leads."""
        begin, stop, remove = (
            self.admin_site.admin_view(require_POST(view)) for view in (self._try, self._stop, self._remove)
        )
        urls = [
            path("<path:object_id>/remove/", remove, name="models_app_languagemodel_remove"),
            path("<path:object_id>/try/", begin, name="models_app_languagemodel_try"),
            path("stop/<str:task_id>/", stop, name="models_app_languagemodel_stop"),
        ]
        return [*urls, *super().get_urls()]

    def _try(self, request: HttpRequest, object_id: str) -> JsonResponse:
        if not (request.user.has_perm(_TRY) and self.has_view_permission(request)):
            raise PermissionDenied
        model = get_object_or_404(LanguageModel, pk=unquote(object_id))
        form = TryForm(request.POST)
        if not form.is_valid():
            faults = " ".join(f"{name}: {' '.join(map(str, texts))}" for name, texts in form.errors.items())
            return JsonResponse({"error": faults}, status=400)
        try:
            task = trying.begin(model, actor=Actor.admin(request), **form.cleaned_data)
        except ProtocolError as refusal:
            return JsonResponse({"error": str(refusal), **_remedy(refusal)}, status=refusal.status)
        page = reverse("admin:tasks_app_task_change", args=[task.pk])
        stop = reverse("admin:models_app_languagemodel_stop", args=[task.pk])
        return JsonResponse({"task_id": task.pk, "page": page, "page_name": "The task", "stop": stop})

    def _stop(self, request: HttpRequest, task_id: str) -> JsonResponse:
        if not request.user.has_perm(_TRY):
            raise PermissionDenied
        task = get_object_or_404(Task, pk=task_id, client_id=trying.CLIENT_ID)
        try:
            status = managing.cancel(task, Actor.admin(request))
        except ProtocolError as refusal:
            return JsonResponse({"error": str(refusal)}, status=refusal.status)
        return JsonResponse({"status": status})

    def _remove(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not request.user.has_perm(_REMOVE):
            raise PermissionDenied
        model = get_object_or_404(LanguageModel, pk=unquote(object_id))
        try:
            managing.remove_model(model, Actor.admin(request))
        except ProtocolError as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return HttpResponseRedirect(reverse("admin:models_app_languagemodel_change", args=[quote(model.pk)]))
        self.message_user(request, f"{model.pk} was removed, with its files.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:models_app_languagemodel_changelist"))


def _remedy(refusal: ProtocolError) -> dict[str, str]:
    """Return where that is mended which a trial is refused for, if it is a page here."""
    if refusal.code != "client_not_active":
        return {}
    return {"page": reverse("admin:clients_app_client_change", args=[trying.CLIENT_ID]), "page_name": "Its page"}


def _standing() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in standing.rows(statistics.speeds())}


def _of(model: LanguageModel, name: str) -> Any:
    # Set by the list, which has looked at all models at once.
    return getattr(model, "now", {}).get(name)


def _facts(model: LanguageModel) -> list[tuple[str, str]]:
    known = listing.describe(model)
    context = f"{model.context_length:,} tokens"
    if model.trained_context_length > model.context_length:
        context += f", of {model.trained_context_length:,} that it was trained for"
    facts = [
        ("Aliases", ", ".join(known["aliases"])),
        ("Architecture", model.architecture),
        ("Parameters", _count(model.parameter_count)),
        ("Quantization", model.quantization),
        ("Context", context),
        ("Chat template", "its own" if model.has_chat_template else "none: ChatML is used"),
        ("Sampling", ", ".join(f"{name} {value}" for name, value in model.sampling.items())),
        ("Stays loaded", _kept(model)),
        ("License", model.license or "not stated"),
        ("Base model", model.base_model),
        ("Engine", f"{model.engine}, {model.format}"),
        ("On disk", _size(model.size_bytes)),
        ("Digest", model.digest),
        ("Same content as", ", ".join(known["same_content_as"])),
        ("Added", f"{model.created_at:%Y-%m-%d %H:%M} UTC"),
    ]
    return [(name, value) for name, value in facts if value]


def _kept(model: LanguageModel) -> str:
    """Say for how long its engine stays loaded by what is set, for it or for all."""
    own = model.keep_alive
    seconds = ServiceConfig.current().keep_alive if own is None else own
    if seconds < 0:
        kept = "until another model needs the room"
    else:
        kept = f"{figures.span(seconds)} after its last use" if seconds else "while it is in use"
    return f"{kept}, as all models" if own is None else kept


def _size(count: int | None) -> str:
    return "-" if count is None else figures.size(count)


def _count(number: int) -> str:
    for size, name in _UNITS:
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,}" if number else ""
