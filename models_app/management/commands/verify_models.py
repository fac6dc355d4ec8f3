"""Read model files again and compare them with what was registered."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor
from lmsp_site.management.base import ServiceCommand
from models_app import naming, verifying
from models_app.models import FileState, LanguageModel
from models_app.progress import Bar


class Command(ServiceCommand):
    """``verify_models [ID…]``: exit status 1 where a model's files are not what was registered."""

    help = (
        "Compare the digests of model files with those that were registered: of the models named, or of all. "
        "A model whose files have come right again is ready for its tasks at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the models' names."""
        super().add_arguments(parser)
        parser.add_argument("ids", nargs="*", metavar="ID")
        parser.add_argument("--begun", action="store_true", help="somebody has begun it in the admin")

    def run(self, **options: Any) -> dict[str, Any]:
        """Read the files of one after the other."""
        found = []
        for model in _named(options["ids"]):
            # Who has begun it in the admin is written down by then.
            if not options["begun"]:
                audit_log.record(Actor.command_line(), Action.CHANGED, model, done="verified")
            found.append(self._compare(model, not options["json"]))
        if any(model["state"] != FileState.READY for model in found):
            self.exit_status = 1
        return {"models": found}

    def _compare(self, model: LanguageModel, shown: bool) -> dict[str, Any]:
        bar = Bar(model.id, shown=shown)
        on_bytes = bar.start(model.size_bytes)
        read = 0

        def on_progress(part: float) -> None:
            nonlocal read
            now = int(part * model.size_bytes)
            on_bytes(now - read)
            read = now

        state = verifying.verify(model, on_progress, anew=True)
        bar.end()
        return {"id": model.id, "state": state.value, "digest": model.digest, "file": model.file}

    def describe(self, answer: dict[str, Any]) -> None:
        """Tell of each what it is."""
        for model in answer["models"]:
            good = model["state"] == FileState.READY
            line = f"{model['id']}: {FileState(model['state']).label}"
            self.stdout.write(line if good else self.style.ERROR(f"{line} (models/{model['file']}, {model['digest']})"))


def _named(names: list[str]) -> list[LanguageModel]:
    if not names:
        return list(LanguageModel.objects.all())
    models = []
    for name in names:
        model = naming.find(name)
        if model is None:
            raise CommandError(f"There is no model {name}; list_models shows those that are.")
        models.append(model)
    return models
