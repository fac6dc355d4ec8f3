"""Taking a model out of the catalogue, with its files."""

import shutil
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.db import transaction

from lmsp_site import audit_log, data_dir
from lmsp_site.audit_log import Action, Actor
from models_app.engines.client import EngineError, HostClient
from models_app.models import LanguageModel


def remove(model: LanguageModel, actor: Actor) -> None:
    """Remove the row, then the files, then the engine, which no other model of this content may need."""
    key, folder, models = model.engine_key, model.folder, Path(settings.LMSP.models_dir)
    with data_dir.exclusive(settings.LMSP.run_dir / "models.lock"):
        with transaction.atomic():
            audit_log.record(actor, Action.DELETED, model, digest=model.digest)
            # The object keeps its id for whoever tells of it.
            LanguageModel.objects.filter(pk=model.pk).delete()
        # A file of nobody costs space; a row without its file would fail tasks.
        if folder != models and folder.is_symlink():
            folder.unlink()
        elif model.format != "gguf":
            shutil.rmtree(folder, ignore_errors=True)
        else:
            _remove_files({model.path, *model.paths}, models)
    if not LanguageModel.objects.filter(digest=model.digest, max_context_length=model.max_context_length).exists():
        with suppress(EngineError):
            HostClient(settings.LMSP.run_dir).unload(key)


def _remove_files(files: set[Path], models: Path) -> None:
    """Remove files, and the folders that are empty then: one that somebody has put there may hold other models."""
    for file in files:
        file.unlink(missing_ok=True)
    folder = next(iter(files)).parent
    with suppress(OSError):
        while folder != models:
            folder.rmdir()
            folder = folder.parent
