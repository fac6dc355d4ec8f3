"""Unload a model from the command line."""

from typing import Any

from django.core.management import CommandError

from lmsp_site.audit_log import Actor
from models_app import loading
from models_app.engines.client import EngineUnavailable
from models_app.management.commands._model_command import NOT_RUNNING, ModelCommand


class Command(ModelCommand):
    """``unload_model ID``: end the engine of a model."""

    help = "Unload a model from the running service. What it generates goes by its on_restart."

    def run(self, **options: Any) -> dict[str, Any]:
        """Unload it."""
        model = self.model(options["id"])
        try:
            return {"id": model.id, "unloaded": loading.unload(model, Actor.command_line())}
        except EngineUnavailable as error:
            raise CommandError(NOT_RUNNING) from error
