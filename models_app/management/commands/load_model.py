"""Load a model from the command line."""

import time
from typing import Any

from django.core.management import CommandError

from lmsp_site.audit_log import Actor
from models_app import loading
from models_app.engines.client import EngineUnavailable, ModelLoadFailed
from models_app.management.commands._model_command import NOT_RUNNING, ModelCommand


class Command(ModelCommand):
    """``load_model ID``: have the running service load a model, and wait until it is ready."""

    help = "Load a model into the running service, even one that has crashed before, and wait until it is ready."

    def run(self, **options: Any) -> dict[str, Any]:
        """Load it."""
        model = self.model(options["id"])
        told = ""

        def tell(reason: str) -> None:
            nonlocal told
            if reason != told:
                told = reason
                self.stderr.write(reason)

        began = time.monotonic()
        try:
            address = loading.load(model, Actor.command_line(), while_waiting=tell)
        except EngineUnavailable as error:
            raise CommandError(NOT_RUNNING) from error
        except ModelLoadFailed as error:
            raise CommandError(f"{error.code}: {error}") from error
        seconds = time.monotonic() - began
        state, size = loading.state_of(model, loading.states())
        return {
            "id": model.id,
            "state": state,
            "memory_bytes": size,
            "pid": address.pid,
            "slots": address.slots,
            "context_length": address.context_length,
            "seconds": round(seconds, 3),
        }
