"""Loading, unloading and verifying in the admin: for models that are selected in the list, and on a model's page."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST

from lmsp_site import audit_log
from lmsp_site.admin_tables import AuditedAdmin
from lmsp_site.audit_log import Action, Actor
from models_app import errands, loading
from models_app.engines import registry
from models_app.engines.client import EngineUnavailable, ModelLoadFailed
from models_app.models import LanguageModel
from models_app.standing import NOT_RUNNING

_CHANGE = "models_app.change_languagemodel"


class LoadingAdmin(AuditedAdmin):
    """Has models loaded, unloaded and verified."""

    actions: tuple[str, ...] = ("load", "unload", "verify")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Say above the list which engines this machine cannot run, and why."""
        missing = " ".join(registry.unavailable().values())
        return super().changelist_view(request, {"subtitle": missing or None, **(extra_context or {})})

    def has_load_permission(self, request: HttpRequest) -> bool:
        """Whoever may change models may have them loaded, although nothing of a row is changed by hand."""
        return request.user.has_perm(_CHANGE)

    @admin.action(description="Load selected models", permissions=["load"])
    def load(self, request: HttpRequest, models: QuerySet[LanguageModel]) -> None:
        """Begin to load them; the list shows how far they are."""
        for model in models:
            try:
                loading.begin(model, Actor.admin(request))
            except EngineUnavailable:
                self.message_user(request, NOT_RUNNING, messages.ERROR)
                return
            except ModelLoadFailed as error:
                self.message_user(request, f"{model.id}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"{model.id} is being loaded.", messages.SUCCESS)

    @admin.action(description="Unload selected models", permissions=["load"])
    def unload(self, request: HttpRequest, models: QuerySet[LanguageModel]) -> None:
        """End their engines; what they generate goes by its restart policy."""
        for model in models:
            try:
                there_was = loading.unload(model, Actor.admin(request))
            except EngineUnavailable:
                self.message_user(request, NOT_RUNNING, messages.ERROR)
                return
            self.message_user(request, f"{model.id} was unloaded." if there_was else f"{model.id} was not loaded.")

    @admin.action(description="Verify selected models: read their files now", permissions=["load"])
    def verify(self, request: HttpRequest, models: QuerySet[LanguageModel]) -> None:
        """Have a process of its own compare their files with what was registered: a large file takes minutes."""
        names = [model.id for model in models]
        errands.begin("verify_models", *names, "--begun")
        for model in models:
            audit_log.record(Actor.admin(request), Action.CHANGED, model, done="verified")
        self.message_user(request, f"The files of {', '.join(names)} are being read; the state tells what they are.")

    def get_urls(self) -> list[URLPattern]:
        """Add where the buttons of a model's page lead."""
        deeds = {"load": self.load, "unload": self.unload, "verify": self.verify}
        urls = [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(require_POST(self._on_page(deed))),
                name=f"models_app_languagemodel_{name}",
            )
            for name, deed in deeds.items()
        ]
        return [*urls, *super().get_urls()]

    def _on_page(
        self, deed: Callable[[HttpRequest, QuerySet[LanguageModel]], None]
    ) -> Callable[[HttpRequest, str], HttpResponse]:
        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            if not self.has_load_permission(request):
                raise PermissionDenied
            models = LanguageModel.objects.filter(pk=unquote(object_id))
            if not models:
                return HttpResponseRedirect(reverse("admin:models_app_languagemodel_changelist"))
            deed(request, models)
            return HttpResponseRedirect(reverse("admin:models_app_languagemodel_change", args=[quote(models[0].pk)]))

        return view
