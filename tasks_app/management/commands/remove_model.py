"""Take a model out of the catalogue, with its files."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand
from models_app import removing
from models_app.models import LanguageModel
from tasks_app.models import Task


class Command(ServiceCommand):
    """``remove_model ID``: refused while unfinished tasks name it, unless forced."""

    help = "Remove a model and its files. Finished tasks keep what they have."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the model's id, and ``--force``."""
        super().add_arguments(parser)
        parser.add_argument("id")
        parser.add_argument("--force", action="store_true", help="let unfinished tasks of it fail (model_not_found)")

    def run(self, **options: Any) -> dict[str, Any]:
        """Remove it."""
        model = LanguageModel.objects.filter(pk=options["id"]).first()
        if model is None:
            raise CommandError(f"There is no model with the id {options['id']}; list_models shows those that are.")
        unfinished = Task.objects.unfinished().filter(model=model.id).count()
        if unfinished and not options["force"]:
            raise CommandError(
                f"{unfinished} unfinished tasks need {model.id}. Wait for them, cancel them, or say --force."
            )
        removing.remove(model, Actor.command_line())
        return {"id": model.id, "digest": model.digest, "size_bytes": model.size_bytes, "unfinished_tasks": unfinished}
