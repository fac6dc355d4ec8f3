"""What the commands that load and unload models have in common."""

from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site.errors import NotFound
from lmsp_site.management.base import ServiceCommand
from models_app import catalog
from models_app.models import LanguageModel

NOT_RUNNING = "The service does not run: no engine host answers. Models are loaded while it runs."


class ModelCommand(ServiceCommand):
    """A command about one registered model."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the model's id."""
        super().add_arguments(parser)
        parser.add_argument("id", help="the id of a registered model")

    def model(self, model_id: str) -> LanguageModel:
        """Return the model.

        Raises:
            CommandError: there is none.
        """
        try:
            return catalog.find(model_id)
        except NotFound as error:
            raise CommandError(error.message) from error
