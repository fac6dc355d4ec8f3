"""The page on which a person adds a model that lies inside ``models/``, and sees how far those are that were begun."""

import re
from pathlib import PurePosixPath
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from lmsp_site.audit_log import Actor
from models_app import additions, naming, shelf
from models_app.additions import Addition, AdditionState
from models_app.admin import LanguageModelAdmin
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister
from models_app.shelf import Candidate
from tasks_app.console import figures

_ADD = "models_app.add_languagemodel"
_PAGE = "admin:models_app_languagemodel_add"
_PART = re.compile(r"-\d{5}-of-\d{5}$")


class AddingForm(forms.Form):
    """What to register, by its path inside ``models/``, and what to call it."""

    name = forms.CharField(max_length=300, strip=False)
    model_id = forms.CharField(max_length=200)


class AddingAdmin(LanguageModelAdmin):
    """The catalogue, to which what lies in ``models/`` can be added."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whoever may add models may add those that lie there; no file comes over the network."""
        return request.user.has_perm(_ADD)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what could be added and what is being added; begin with what is sent."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        refusal = _begin(request) if request.method == "POST" else None
        if refusal is not None:
            messages.error(request, refusal)
        elif request.method == "POST":
            return HttpResponseRedirect(reverse(_PAGE))
        context = {
            **self.admin_site.each_context(request),
            **(extra_context or {}),
            "opts": self.opts,
            "title": "Add a model",
            "found": _found(),
            "additions": [_told(addition) for addition in additions.listed()],
        }
        return TemplateResponse(request, "tasks_app/admin/add_model.html", context, status=400 if refusal else 200)

    def get_urls(self) -> list[URLPattern]:
        """Add where the page asks how far they are."""
        view = self.admin_site.admin_view(require_GET(never_cache(self._progress)))
        return [path("add/progress/", view, name="models_app_languagemodel_progress"), *super().get_urls()]

    def _progress(self, request: HttpRequest) -> JsonResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return JsonResponse({"begun": [_told(addition) for addition in additions.listed()]})


def _begin(request: HttpRequest) -> str | None:
    """Begin what a form asks for, and return why it is refused."""
    form = AddingForm(request.POST)
    if not form.is_valid():
        return " ".join(f"{name}: {' '.join(map(str, texts))}" for name, texts in form.errors.items())
    try:
        additions.start(form.cleaned_data["name"], form.cleaned_data["model_id"], Actor.admin(request))
    except CannotRegister as refusal:
        return str(refusal)
    return None


def _found() -> list[dict[str, Any]]:
    busy = {addition.name for addition in additions.listed() if addition.state == AdditionState.RUNNING}
    return [
        {
            "name": candidate.name,
            "kind": _kind(candidate),
            "size": figures.size(candidate.size) if candidate.source.files else "",
            "problem": candidate.problem,
            "suggested": _suggestion(candidate.name),
        }
        for candidate in shelf.unregistered().values()
        if candidate.name not in busy
    ]


def _kind(candidate: Candidate) -> str:
    source = candidate.source
    if source.path.is_dir():
        return "folder of safetensors"
    return f"GGUF in {len(source.files)} parts" if len(source.files) > 1 else "GGUF"


def _suggestion(name: str) -> str:
    """Return an id that is made of a file's or folder's name, and free."""
    base = PurePosixPath(name).name
    stem = _PART.sub("", base[: -len(".gguf")]) if base.lower().endswith(".gguf") else base
    plain = re.sub(r"[^A-Za-z0-9._-]+|\.{2,}", "-", stem).strip("-._")[:190] or "model"
    tried, number = plain, 1
    while naming.find(tried) is not None:
        number += 1
        tried = f"{plain}-{number}"
    return tried


def _told(addition: Addition) -> dict[str, Any]:
    added = addition.state == AdditionState.COMPLETED and LanguageModel.objects.filter(pk=addition.model_id).exists()
    page = reverse("admin:models_app_languagemodel_change", args=[quote(addition.model_id)]) if added else ""
    return {
        "key": addition.key,
        "name": addition.name,
        "id": addition.model_id,
        "state": addition.state,
        "part": addition.part,
        "note": _note(addition),
        "page": page,
    }


def _note(addition: Addition) -> str:
    if addition.state == AdditionState.INTERRUPTED:
        return "Whatever read it was ended, with the web server or by somebody. Add it again."
    if addition.state == AdditionState.COMPLETED:
        same = ", ".join(addition.same_content_as)
        return f"The same content as {same}: they share one loaded engine." if same else ""
    if addition.state == AdditionState.RUNNING and addition.total_bytes:
        return f"{figures.size(addition.done_bytes)} of {figures.size(addition.total_bytes)} read"
    return addition.error
