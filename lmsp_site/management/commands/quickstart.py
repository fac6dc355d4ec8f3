"""Make a new service usable: what `make run` does before it serves."""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import CommandError
from django.core.management.base import CommandParser
from django.db import transaction

from clients_app import scopes
from clients_app.managing import create
from clients_app.models import Client
from lmsp_site import audit_log
from lmsp_site.address import url
from lmsp_site.audit_log import Action, Actor
from lmsp_site.configuration import REPOSITORY
from lmsp_site.management.base import ServiceCommand
from models_app import catalog
from models_app.models import LanguageModel

_DEMO_MODEL = REPOSITORY / ".cache" / "demo-model" / "SmolLM2-135M-Instruct.Q4_1.gguf"
_DEMO_MODEL_ID = "smollm2-135m-instruct"
_ADMIN = "admin"
_CLIENT = "demo"


class Command(ServiceCommand):
    """``quickstart``: an admin user, a demo client and the demo model, each made once, secrets printed once."""

    help = "Make the admin user, the demo client and the demo model, unless they are there."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add where the demo model lies."""
        super().add_arguments(parser)
        parser.add_argument("--model", type=Path, default=_DEMO_MODEL)

    def run(self, **options: Any) -> dict[str, Any]:
        """Make what is missing; the answer holds the secrets of what was made now."""
        answer: dict[str, Any] = {"model": self._model(options["model"]), "password": None, "token": None}
        users = get_user_model().objects
        if not users.filter(is_superuser=True).exists():
            answer["password"] = secrets.token_urlsafe(15)
            with transaction.atomic():
                admin = users.create_superuser(_ADMIN, password=answer["password"])
                audit_log.record(Actor.command_line(), Action.CREATED, admin, is_superuser=True)
        if not Client.objects.exists():
            _, answer["token"] = create(_CLIENT, list(scopes.ALL), Actor.command_line())
        return answer

    def _model(self, path: Path) -> str:
        if model := LanguageModel.objects.first():
            return model.id
        try:
            return catalog.register(path, _DEMO_MODEL_ID).id
        except catalog.CannotRegister as error:
            raise CommandError(f"{error} Run `make run` again to fetch it.") from error

    def describe(self, answer: dict[str, Any]) -> None:
        """Show the secrets, which are in no file, and what to do with them."""
        base = url(settings.LMSP.host, settings.LMSP.port)
        if answer["password"]:
            self.stdout.write(
                f"\nAdmin console   {base}/admin/\n"
                f"  user          {_ADMIN}\n"
                f"  password      {answer['password']}\n"
                "  Shown this once; `manage.py changepassword admin` sets another."
            )
        if answer["token"]:
            self.stdout.write(
                "\nStream a first answer, once the service is ready. The token is shown this once;\n"
                "`manage.py create_client NAME` makes another.\n\n"
                f"curl -N {base}/v1/responses -H 'Authorization: Bearer {answer['token']}' \\\n"
                "  -H 'Content-Type: application/json' \\\n"
                f'  -d \'{{"model": "{answer["model"]}", "input": "Write a short poem about the sea.",'
                ' "stream": true}\'\n'
            )
