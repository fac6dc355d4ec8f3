"""Models from anywhere on disk, copied into ``models/`` and registered."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from lmsp_site import audit_log, data_dir
from lmsp_site.audit_log import Action, Actor
from models_app import digests, inspecting, naming, sources, staging
from models_app.digests import FileEntry, OnBytes
from models_app.models import FileState, LanguageModel
from models_app.refusals import CannotRegister

_GB = 1e9


@dataclass(frozen=True, slots=True)
class _Draft:
    """A model that is whole and synced, but not yet where it will be found.

    Attributes:
        place: its file, or the folder of its files.
        target: where it belongs inside ``models/``.
        opened: what of it an engine opens, inside ``models/``.
    """

    place: Path
    target: str
    opened: str
    files: list[FileEntry]
    metadata: dict[str, Any]

    @property
    def digest(self) -> str:
        return digests.of_manifest(self.files)

    @property
    def size(self) -> int:
        return sum(entry["size"] for entry in self.files)


def register(
    path: Path,
    model_id: str,
    *,
    actor: Actor | None = None,
    aliases: Sequence[str] = (),
    moved: Mapping[str, str] | None = None,
    on_start: Callable[[int], OnBytes] = lambda _total: digests.ignore,
) -> LanguageModel:
    """Copy the model at `path` into ``models/`` and register it as `model_id`.

    The registered copy is whole and synced before the row is stored. Registering the same content under the
    same id again returns the row that is there, and puts files back that were lost or changed.

    Args:
        path: a GGUF file, a part of a split one, or a folder of safetensors.
        model_id: what requests will name.
        actor: who asks for it; the user of this process where it is left out.
        aliases: what they may name as well.
        moved: where its files are on the disk of ``models/`` and need not stay where they are: their SHA-256 in
            hexadecimal, by their names at `path`, which somebody has just computed.
        on_start: told how many bytes there are to read, before they are; returns what is told of each piece.

    Raises:
        CannotRegister: see its message.
    """
    actor = actor or Actor.command_line()
    check_id(model_id)
    naming.require_free(model_id)
    naming.check_aliases(LanguageModel(id=model_id), aliases)
    source = sources.find(path)
    metadata = inspecting.inspect(path.name, source.to_inspect)
    check_room(0 if moved else sum(file.stat().st_size for file in source.files.values()))
    with staging.folder() as folder:
        files = _bring(source, folder, moved, on_start)
        draft = _draft(source, folder, model_id, files, metadata)
        # From the look at the names to the row that takes them: nobody's file may be replaced by another's.
        with data_dir.exclusive(settings.LMSP.run_dir / "models.lock"):
            existing = LanguageModel.objects.filter(pk=model_id).first()
            model = _put_back(existing, draft, actor) if existing else _put_new(model_id, draft, actor)
            with transaction.atomic():
                before = naming.aliases_of(model)
                naming.add_aliases(model, aliases)
                after = naming.aliases_of(model)
                if existing and after != before:
                    changes = {"aliases": {"from": before, "to": after}}
                    audit_log.record(actor, Action.CHANGED, model, changes=changes)
            return model


def check_id(model_id: str) -> None:
    """Refuse what cannot be a model's id."""
    if not naming.is_name(model_id):
        raise CannotRegister("A model id has letters, digits and . _ : / - only, and starts with a letter or digit.")


def check_room(needed: int) -> None:
    """Refuse what would take more bytes than the disk of ``models/`` can give."""
    free, reserve = shutil.disk_usage(settings.LMSP.models_dir).free, settings.LMSP.min_free_bytes
    if needed + reserve > free:
        raise CannotRegister(
            f"The disk of {settings.LMSP.models_dir} has {free / _GB:.1f} GB free; "
            f"the model takes {needed / _GB:.1f} GB, and {reserve / _GB:.1f} GB are kept for running work. "
            "Free some space."
        )


def _bring(
    source: sources.Source,
    folder: Path,
    moved: Mapping[str, str] | None,
    on_start: Callable[[int], OnBytes],
) -> list[FileEntry]:
    """Copy or move the files of `source` into `folder`, and return what came."""
    on_bytes = on_start(sum(file.stat().st_size for file in source.files.values()))
    files: list[FileEntry] = []
    for number, (name, file) in enumerate(source.files.items()):
        target = folder / (name if source.folder else str(number))
        try:
            before = digests.stamp(file)
            if moved is not None:
                entry: FileEntry = {"name": name, "size": before[0], "sha256": moved[file.name]}
                file.rename(target)
                changed = False
            else:
                entry = digests.copy(file, target, on_bytes)
                changed = digests.stamp(file) != before
        except OSError as error:
            raise CannotRegister(f"{file.name} could not be copied into the data directory: {error}.") from error
        if changed or entry["size"] != before[0]:
            raise CannotRegister(f"{file.name} was written to while it was copied. Try again when it is whole.")
        files.append({**entry, "name": name})
    return files


def _draft(
    source: sources.Source, folder: Path, model_id: str, files: list[FileEntry], metadata: dict[str, Any]
) -> _Draft:
    slug = model_id.replace("/", "--")
    if not source.folder:
        return _Draft(folder / "0", f"{slug}.gguf", f"{slug}.gguf", files, metadata)
    first = f"{slug}/{files[0]['name']}" if metadata["format"] == "gguf" else slug
    whole = folder / "whole"
    whole.mkdir()
    for entry in files:
        (folder / entry["name"]).rename(whole / entry["name"])
    _sync(whole)
    return _Draft(whole, slug, first, files, metadata)


def _put_new(model_id: str, draft: _Draft, actor: Actor) -> LanguageModel:
    naming.require_free(model_id)
    target = Path(settings.LMSP.models_dir) / draft.target
    taken = LanguageModel.objects.filter(file__in=(draft.opened, draft.target))
    if taken.exists() or LanguageModel.objects.filter(file__startswith=f"{draft.target}/").exists():
        raise CannotRegister(f"Another model has the file name {draft.target} already; choose another id.")
    if os.path.lexists(target) and not _is_the_same(target, draft):
        raise CannotRegister(
            f"There is {draft.target} in {settings.LMSP.models_dir} already, which belongs to no model; "
            "move it away, or choose another id."
        )
    _exchange(draft.place, target)
    with transaction.atomic():
        model = LanguageModel(id=model_id, file=draft.opened, digest=draft.digest, size_bytes=draft.size)
        for name, value in draft.metadata.items():
            setattr(model, name, value)
        model.files = draft.files
        _note_files(model)
        model.save(force_insert=True)
        audit_log.record(actor, Action.CREATED, model, digest=draft.digest)
    return model


def _put_back(model: LanguageModel, draft: _Draft, actor: Actor) -> LanguageModel:
    if model.digest != draft.digest:
        raise CannotRegister(f"The id {model.id} is taken by another file; choose another id.")
    lacks = model.file_state != FileState.READY or model.stamps_now() != model.stamps
    if lacks:
        _replace(model, draft)
    with transaction.atomic():
        for name, value in draft.metadata.items():
            setattr(model, name, value)
        _note_files(model)
        model.save()
        if lacks:
            audit_log.record(actor, Action.CHANGED, model, done="files put back")
    return model


def _replace(model: LanguageModel, draft: _Draft) -> None:
    if not draft.place.is_dir():
        model.path.parent.mkdir(parents=True, exist_ok=True)
        _exchange(draft.place, model.path)
        return
    if model.format != "gguf":
        _exchange(draft.place, model.folder)
        return
    # Part by part: where somebody had put it they have their own names, and their folder may hold other models.
    if model.folder != Path(settings.LMSP.models_dir) and model.folder.is_symlink():
        model.folder.unlink()
    model.folder.mkdir(parents=True, exist_ok=True)
    for path, entry in zip(model.paths, draft.files, strict=True):
        _exchange(draft.place / entry["name"], path)


def _note_files(model: LanguageModel) -> None:
    model.file_state = FileState.READY
    model.stamps = model.stamps_now() or []
    model.checked_at = timezone.now()


def _is_the_same(target: Path, draft: _Draft) -> bool:
    """Tell whether a registration that was cut off has left there what is to come there now."""
    if target.is_symlink() or target.is_dir() != draft.place.is_dir():
        return False
    paths = [target / entry["name"] if target.is_dir() else target for entry in draft.files]
    return all(
        path.is_file() and path.stat().st_size == entry["size"] and digests.of_file(path) == entry["sha256"]
        for path, entry in zip(paths, draft.files, strict=True)
    )


def _exchange(draft: Path, target: Path) -> None:
    """Put a draft into its place; a folder that is there goes with the draft's folder."""
    if draft.is_dir() and os.path.lexists(target):
        target.rename(draft.parent / "replaced")
    draft.replace(target)
    _sync(target.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
