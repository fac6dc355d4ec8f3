"""Download a model and register it."""

from typing import Any

from django.core.management import CommandError
from django.core.management.base import CommandParser

from lmsp_site.management.base import ServiceCommand
from models_app import listing, pull_records
from models_app.models import ModelPull
from models_app.progress import Bar
from models_app.refusals import CannotRegister


class Command(ServiceCommand):
    """``pull_model REPO[:FILE] --id ID``: from the Hugging Face hub; what was interrupted goes on when called again."""

    help = (
        "Download a model from the Hugging Face hub and register it. HF_TOKEN and HF_ENDPOINT are what they are "
        "elsewhere. An interrupted download goes on when the command is called again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the repository, the names that requests will use, and the revision."""
        super().add_arguments(parser)
        parser.add_argument("source", metavar="REPO[:FILE]", help="such as someone/model-GGUF:model-Q4_K_M.gguf")
        parser.add_argument("--id", required=True, help="what requests name as their model")
        parser.add_argument("--alias", action="append", default=[], metavar="NAME", help="may be repeated")
        parser.add_argument("--revision", default="", help="branch, tag or commit; the main branch otherwise")
        parser.add_argument("--record", type=int, help="the row of a pull that the admin has begun")

    def run(self, **options: Any) -> dict[str, Any]:
        """Download and register it."""
        told: dict[str, str] = {}
        bar = Bar("Pulling", shown=not options["json"])

        def on_license(commit: str, license_name: str) -> None:
            told["commit"] = commit
            if not options["json"]:
                self.stderr.write(f"{options['source']} at {commit[:12]}, licence: {license_name or 'not stated'}")

        try:
            model = pull_records.carry_out(_record(options), options["alias"], on_license, bar.start)
        except CannotRegister as error:
            raise CommandError(str(error)) from error
        finally:
            bar.end()
        return {**listing.describe(model), "source": options["source"], **told}


def _record(options: dict[str, Any]) -> ModelPull:
    if not pull_records.is_source(options["source"]):
        raise CommandError(f"{options['source']!r} names no repository: say OWNER/REPOSITORY or OWNER/REPOSITORY:FILE.")
    if options["record"]:
        pull = ModelPull.objects.filter(pk=options["record"]).first()
        if pull is None:
            raise CommandError(f"There is no pull {options['record']}.")
        return pull
    return ModelPull.objects.create(source=options["source"], name=options["id"], revision=options["revision"])
