"""The catalogue: registering model files and finding them again."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from lmsp_site import audit_log, data_dir
from lmsp_site.audit_log import Action, Actor
from lmsp_site.errors import NotFound
from models_app.engines.base import ModelSpec
from models_app.models import LanguageModel

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}")
_BLOCK = 1 << 20
_INSPECT_SECONDS = 60


class CannotRegister(Exception):
    """The file or the id cannot be registered; the message says why and is meant for a person."""


def find(model_id: str) -> LanguageModel:
    """Return the registered model `model_id`.

    Raises:
        NotFound: there is none (``model_not_found``).
    """
    model = LanguageModel.objects.filter(pk=model_id).first()
    if model is None:
        raise NotFound(
            f"The model {model_id!r} is not registered here; GET /v1/models lists those that are.",
            code="model_not_found",
            param="model",
        )
    return model


def engine_spec(model: LanguageModel) -> ModelSpec:
    """Return what an engine needs to load `model`."""
    return ModelSpec(
        key=model.digest,
        engine=model.engine,
        path=str(model.path),
        digest=model.digest,
        context_length=model.context_length,
        slots=settings.LMSP.max_running,
        threads=settings.LMSP.engine_threads,
        prefix_bytes=settings.LMSP.prefix_bytes,
    )


def register(source: Path, model_id: str) -> LanguageModel:
    """Copy the model file `source` into ``models/`` and register it as `model_id`.

    The registered copy is whole and synced before the row is stored. Registering the same content under the
    same id again returns the row that is there.

    Raises:
        CannotRegister: see its message.
    """
    if not _ID.fullmatch(model_id) or ".." in model_id:
        raise CannotRegister("A model id has letters, digits and . _ : / - only, and starts with a letter or digit.")
    if not source.is_file():
        raise CannotRegister(f"{source} is not a file.")
    metadata = _inspect(source)
    target = Path(settings.LMSP.models_dir) / f"{model_id.replace('/', '--')}{source.suffix}"
    draft, digest, size = _copy(source, target.parent)
    try:
        # From the look at the names to the row that takes them: nobody's file may be replaced by another's.
        with data_dir.exclusive(settings.LMSP.run_dir / "models.lock"):
            if existing := LanguageModel.objects.filter(pk=model_id).first():
                if existing.digest != digest:
                    raise CannotRegister(f"The id {model_id} is taken by another file; choose another id.")
                if not existing.path.is_file():
                    draft.replace(existing.path)
                return existing
            if LanguageModel.objects.filter(file=target.name).exists():
                raise CannotRegister(f"Another model has the file name {target.name} already; choose another id.")
            draft.replace(target)
            with transaction.atomic():
                model = LanguageModel.objects.create(
                    id=model_id, file=target.name, digest=digest, size_bytes=size, **metadata
                )
                audit_log.record(Actor.command_line(), Action.CREATED, model, digest=digest)
            return model
    finally:
        draft.unlink(missing_ok=True)


def _inspect(source: Path) -> dict[str, Any]:
    """Read the file's metadata in a child: a hostile file can take that child down and nothing else."""
    child = subprocess.run(
        [sys.executable, "-m", "models_app.inspect_file", str(source.resolve())],
        capture_output=True,
        text=True,
        timeout=_INSPECT_SECONDS,
        cwd=Path(__file__).parent.parent,
        check=False,
    )
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1] if child.returncode == 1 and child.stderr.strip() else ""
        raise CannotRegister(f"{source.name} is not a model file that can be loaded. {reason}".strip())
    metadata: dict[str, Any] = json.loads(child.stdout)
    return metadata


def _copy(source: Path, directory: Path) -> tuple[Path, str, int]:
    """Copy `source` into a draft in `directory`; return the draft, its digest and its size in bytes."""
    sha256, size = hashlib.sha256(), 0
    descriptor, name = tempfile.mkstemp(prefix=".incoming-", dir=directory)
    draft = Path(name)
    try:
        with source.open("rb") as reader, os.fdopen(descriptor, "wb") as writer:
            while block := reader.read(_BLOCK):
                sha256.update(block)
                size += writer.write(block)
            writer.flush()
            os.fsync(writer.fileno())
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise CannotRegister(f"{source.name} could not be copied into the data directory: {error}.") from error
    return draft, f"sha256:{sha256.hexdigest()}", size
