"""The catalogue on the command line."""

from typing import Any

from lmsp_site.management.base import ServiceCommand
from models_app import listing
from models_app.models import LanguageModel

_COLUMNS = ("id", "state", "format", "quantization", "size", "context_length", "license", "aliases")
_MB = 1e6


class Command(ServiceCommand):
    """``list_models``: what requests can name."""

    help = "List the registered models with what their files say about them."

    def run(self, **options: Any) -> dict[str, Any]:
        """Look at the catalogue; the files themselves are left to ``verify_models``."""
        return {"models": [listing.describe(model) for model in LanguageModel.objects.all()]}

    def describe(self, answer: dict[str, Any]) -> None:
        """Show a line for each."""
        rows = [_COLUMNS, *(_row(model) for model in answer["models"])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        for row in rows:
            self.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(model: dict[str, Any]) -> tuple[str, ...]:
    shown = {**model, "size": f"{model['size_bytes'] / _MB:.0f} MB", "aliases": ", ".join(model["aliases"])}
    return tuple(str(shown[column]) or "-" for column in _COLUMNS)
