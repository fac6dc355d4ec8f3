"""Register a model from the command line."""

from pathlib import Path
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site.management.base import ServiceCommand
from models_app import importing, listing
from models_app.progress import Bar
from models_app.refusals import CannotRegister


class Command(ServiceCommand):
    """``add_model PATH --id ID``: copy a model into ``models/`` and register it."""

    help = (
        "Register a model from anywhere on disk by copying it into the data directory: a GGUF file, any part of a "
        "split one (its other parts are found beside it), or a folder of safetensors with config.json and tokenizer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the path and the names that requests will use."""
        super().add_arguments(parser)
        parser.add_argument("path", type=Path)
        parser.add_argument("--id", required=True, help="what requests name as their model")
        parser.add_argument(
            "--alias", action="append", default=[], metavar="NAME", help="what they may name as well; may be repeated"
        )

    def run(self, **options: Any) -> dict[str, Any]:
        """Register the model."""
        bar = Bar("Copying", shown=not options["json"])
        try:
            model = importing.register(options["path"], options["id"], aliases=options["alias"], on_start=bar.start)
        except CannotRegister as error:
            raise CommandError(str(error)) from error
        finally:
            bar.end()
        return listing.describe(model)
