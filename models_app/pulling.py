"""Models from the Hugging Face hub: which files of a repository, what has come, and whether it is what was stated."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from django.conf import settings

from lmsp_site.audit_log import Actor
from models_app import digests, hub, importing, naming, sources, verifying
from models_app.digests import OnBytes
from models_app.hub import HubFile, Repository
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister

_MOST_LISTED = 20
_GB = 1e9


def pull(
    repository: Repository,
    wanted: str,
    model_id: str,
    *,
    actor: Actor | None = None,
    aliases: Sequence[str] = (),
    on_start: Callable[[int, int], OnBytes] = lambda _total, _done: digests.ignore,
) -> LanguageModel:
    """Download a model and register it. What an earlier call has downloaded is not downloaded again.

    Args:
        repository: as ``hub.look`` has shown it.
        wanted: the GGUF file in it, or a part of a split one; empty where there is one model only.
        model_id: what requests will name.
        actor: as for ``importing.register``.
        aliases: what they may name as well.
        on_start: told how many bytes there are in all and how many have come; returns what is told of each piece.

    Raises:
        CannotRegister: see its message.
    """
    importing.check_id(model_id)
    naming.require_free(model_id)
    naming.check_aliases(LanguageModel(id=model_id), aliases)
    files = choose(repository, wanted)
    if model := _already_there(model_id, files):
        return model
    with _folder(repository, files) as folder:
        parts = {file: folder / f"{_stated(file)}.part" for file in files}
        _remove_others(folder, set(parts.values()))
        come = sum(part.stat().st_size for part in parts.values() if part.exists())
        total = sum(file.size for file in files)
        importing.check_room(max(total - come, 0))
        on_bytes = on_start(total, come)
        known = {}
        for file, part in parts.items():
            hub.fetch(repository, file, part, on_bytes)
            known[_base(file)] = _check(file, part)
        whole = folder / "whole"
        whole.mkdir(exist_ok=True)
        for file, part in parts.items():
            # What cannot be registered after all is not downloaded again to be refused again.
            os.link(part, whole / _base(file))
        place = whole if _is_folder(files) else whole / _base(files[0])
        model = importing.register(place, model_id, actor=actor, aliases=aliases, moved=known)
        shutil.rmtree(folder, ignore_errors=True)
    if repository.license and not model.license:
        model.license = repository.license
        model.save(update_fields=["license"])
    return model


def _already_there(model_id: str, files: Sequence[HubFile]) -> LanguageModel | None:
    """Return the model where this content is registered as it; refuse what would be refused after it has come."""
    model = LanguageModel.objects.filter(pk=model_id).first()
    if model is None or _is_folder(files) or not all(file.sha256 for file in files):
        return None
    names = sources.names_of_parts(len(files))
    stated = digests.of_manifest(
        [{"name": name, "size": file.size, "sha256": file.sha256} for name, file in zip(names, files, strict=True)]
    )
    if model.digest != stated:
        raise CannotRegister(f"The id {model_id} is taken by another file; choose another id.")
    return model if verifying.is_unchanged(model) else None


def choose(repository: Repository, wanted: str) -> list[HubFile]:
    """Return the files of the model that is meant.

    Raises:
        CannotRegister: there is none, or more than one; the message lists them.
    """
    by_name = {file.name: file for file in repository.files}
    models = [file for file in repository.files if file.name.lower().endswith(".gguf") and not _is_later_part(file)]
    if wanted:
        if wanted not in by_name or not wanted.lower().endswith(".gguf"):
            raise CannotRegister(f"{repository.name} has no GGUF file {wanted!r}.{_listed(models)}")
        return _with_parts(by_name, wanted)
    if len(models) == 1:
        return _with_parts(by_name, models[0].name)
    if models:
        raise CannotRegister(
            f"{repository.name} has {len(models)} models; say {repository.name}:FILE.{_listed(models)}"
        )
    folder = [file for file in repository.files if "/" not in file.name and sources.is_kept(file.name)]
    if not {"config.json"} <= {file.name for file in folder} or not any(
        file.name.endswith(".safetensors") for file in folder
    ):
        raise CannotRegister(f"{repository.name} has neither a GGUF file nor safetensors with a config.json.")
    return folder


def _with_parts(by_name: dict[str, HubFile], name: str) -> list[HubFile]:
    names = sources.parts_of(name)
    if missing := [part for part in names if part not in by_name]:
        raise CannotRegister(f"{name} is one of {len(names)} parts, and {missing[0]} is not beside it.")
    return [by_name[part] for part in names]


def _is_later_part(file: HubFile) -> bool:
    return sources.parts_of(file.name)[0] != file.name


def _listed(models: Sequence[HubFile]) -> str:
    lines = [f"\n  {file.name}  {file.size / _GB:.2f} GB" for file in models[:_MOST_LISTED]]
    return "".join([*lines, "\n  …"] if len(models) > _MOST_LISTED else lines)


def _is_folder(files: Sequence[HubFile]) -> bool:
    return not files[0].name.lower().endswith(".gguf")


def _base(file: HubFile) -> str:
    return PurePosixPath(file.name).name


def _stated(file: HubFile) -> str:
    """Return the digest that the hub states of a file, which names what has come of it: another content starts anew."""
    stated = file.sha256 or file.blob
    if not stated or not all(character in "0123456789abcdef" for character in stated):
        raise CannotRegister(f"The hub states no digest of {file.name}; it is not pulled.")
    return hashlib.sha256(f"{stated} {file.name}".encode()).hexdigest()[:32]


def _check(file: HubFile, part: Path) -> str:
    """Return the SHA-256 of a file that has come, which is what the hub states; remove one that is not."""
    sha256 = digests.of_file(part)
    if file.sha256:
        good = sha256 == file.sha256
    else:
        content = part.read_bytes()
        # Git's own digest of small files is all that the hub states of them.
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        good = blob.hexdigest() == file.blob
    if not good:
        part.unlink()
        raise CannotRegister(
            f"{file.name} is not what the hub states: its SHA-256 is {sha256}, "
            f"and {file.sha256 or file.blob} was stated. It was removed; pull again."
        )
    return sha256


@contextmanager
def _folder(repository: Repository, files: Sequence[HubFile]) -> Iterator[Path]:
    """Give the folder where these files grow, call after call; nobody else writes to it meanwhile."""
    name = hashlib.sha256(f"{repository.name} {files[0].name}".encode()).hexdigest()[:16]
    folder = Path(settings.LMSP.models_dir) / f".pull-{name}"
    folder.mkdir(exist_ok=True)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    except BlockingIOError:
        raise CannotRegister(f"{repository.name} is being pulled by another process.") from None
    finally:
        os.close(held)


def _remove_others(folder: Path, parts: set[Path]) -> None:
    """Remove what came of other contents, and what a registration has left that was refused."""
    for left in folder.iterdir():
        if left not in parts:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
