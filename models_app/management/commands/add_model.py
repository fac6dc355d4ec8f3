"""Register a model from the command line."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site.audit_log import Actor
from lmsp_site.management.base import ServiceCommand
from models_app import additions, adopting, importing, listing, shelf
from models_app.models import LanguageModel
from models_app.progress import Bar
from models_app.refusals import CannotRegister


class Command(ServiceCommand):
    """``add_model PATH --id ID``: copy a model into ``models/`` and register it; one that lies there, where it is."""

    help = (
        "Register a model from anywhere on disk by copying it into the data directory: a GGUF file, any part of a "
        "split one (its other parts are found beside it), or a folder of safetensors with config.json and tokenizer. "
        "What lies in models/ of the data directory and belongs to no model yet is registered where it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the path and the names that requests will use."""
        super().add_arguments(parser)
        parser.add_argument("path", type=Path)
        parser.add_argument("--id", required=True, help="what requests name as their model")
        parser.add_argument(
            "--alias", action="append", default=[], metavar="NAME", help="what they may name as well; may be repeated"
        )
        parser.add_argument("--begun", action="store_true", help="somebody has begun it in the admin")

    def run(self, **options: Any) -> dict[str, Any]:
        """Register the model."""
        path, model_id, aliases = options["path"], options["id"], options["alias"]
        name = shelf.name_of(path)
        bar = Bar("Reading" if name else "Copying", shown=not options["json"])
        try:
            if options["begun"]:
                # As it was asked for: what does not lie there any more is told to whoever waits for it.
                asked_for = path.as_posix().removeprefix(f"{settings.LMSP.models_dir}/")
                model = additions.carry_out(asked_for, aliases, bar.start)
            elif name and not LanguageModel.objects.filter(pk=model_id).exists():
                actor = Actor.command_line()
                model = adopting.register(name, model_id, actor=actor, aliases=aliases, on_start=bar.start)
            else:
                model = importing.register(path, model_id, aliases=aliases, on_start=bar.start)
        except CannotRegister as error:
            raise CommandError(str(error)) from error
        finally:
            bar.end()
        return listing.describe(model)
