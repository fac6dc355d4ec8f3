"""Loading and unloading in the admin's list of models."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from models_app import loading
from models_app.engines import registry
from models_app.engines.client import EngineUnavailable, ModelLoadFailed
from models_app.models import LanguageModel

_NOT_RUNNING = "No engine host answers: the service does not run, or is being restarted."


class LoadingAdmin(admin.ModelAdmin):
    """Shows each model's state, and has selected ones loaded and unloaded."""

    actions: tuple[str, ...] = ("load", "unload")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Say above the list which engines this machine cannot run, and why."""
        missing = " ".join(registry.unavailable().values())
        return super().changelist_view(request, {"subtitle": missing or None, **(extra_context or {})})

    def has_load_permission(self, request: HttpRequest) -> bool:
        """Whoever may change models may have them loaded, although nothing of a row is changed by hand."""
        return request.user.has_perm("models_app.change_languagemodel")

    @admin.display(description="state")
    def state(self, model: LanguageModel) -> str:
        """What it is now; of one that no engine of this machine can run, why."""
        if why := registry.why_unavailable(model.engine):
            return why
        state, size = loading.state_of(model, loading.states())
        return state if size is None else f"{state}, {size >> 20} MB"

    @admin.action(description="Load selected models", permissions=["load"])
    def load(self, request: HttpRequest, models: QuerySet[LanguageModel]) -> None:
        """Begin to load them; the list shows how far they are."""
        for model in models:
            try:
                loading.begin(model)
            except EngineUnavailable:
                self.message_user(request, _NOT_RUNNING, messages.ERROR)
                return
            except ModelLoadFailed as error:
                self.message_user(request, f"{model.id}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"{model.id} is being loaded.")

    @admin.action(description="Unload selected models", permissions=["load"])
    def unload(self, request: HttpRequest, models: QuerySet[LanguageModel]) -> None:
        """End their engines; what they generate goes by its restart policy."""
        for model in models:
            try:
                there_was = loading.unload(model)
            except EngineUnavailable:
                self.message_user(request, _NOT_RUNNING, messages.ERROR)
                return
            self.message_user(request, f"{model.id} was unloaded." if there_was else f"{model.id} was not loaded.")
