"""Register a model from the command line."""

from pathlib import Path
from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site.management.base import ServiceCommand
from models_app import catalog


class Command(ServiceCommand):
    """``add_model PATH --id ID``: copy a model file into ``models/`` and register it."""

    help = "Register a model file from anywhere on disk by copying it into the data directory."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the file's path and the id that requests will name."""
        super().add_arguments(parser)
        parser.add_argument("path", type=Path)
        parser.add_argument("--id", required=True, help="what requests name as their model")

    def run(self, **options: Any) -> dict[str, Any]:
        """Register the file."""
        try:
            model = catalog.register(options["path"], options["id"])
        except catalog.CannotRegister as error:
            raise CommandError(str(error)) from error
        return {
            "id": model.id,
            "digest": model.digest,
            "size_bytes": model.size_bytes,
            "format": model.format,
            "context_length": model.context_length,
        }
