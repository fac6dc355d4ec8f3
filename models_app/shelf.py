"""What lies inside ``models/`` and belongs to no model yet: what may be named to have it registered where it is."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from models_app import sources
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister
from models_app.sources import Source

_DEEPEST = 3
_MOST_LOOKED_AT = 20_000
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something inside ``models/`` that looks like a model.

    Attributes:
        name: its path inside ``models/``; of a split model that of the first part.
        source: its files, by the names that they would get in the catalogue.
        problem: why it cannot be registered as it lies there; empty where nothing is known against it.
    """

    name: str
    source: Source
    problem: str = ""

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.stat().st_size for file in self.source.files.values())


def unregistered() -> dict[str, Candidate]:
    """Return what lies there and belongs to no model, by name. Told by names alone: nothing is opened.

    Names with a dot in front are the service's own drafts, or hidden. Links are no files of ours, wherever they lead.
    """
    root, taken = Path(settings.LMSP.models_dir), _taken()
    found = {}
    for path in _walk(root, taken, _DEEPEST):
        name = path.relative_to(root).as_posix()
        candidate = _candidate(name, path)
        if not taken.intersection(candidate.source.files.values()):
            found[name] = candidate
    return found


def find(name: str) -> Candidate:
    """Return what is called that inside ``models/``.

    Raises:
        CannotRegister: nothing that belongs to no model is, or it cannot be registered as it is.
    """
    candidate = unregistered().get(name)
    if candidate is None:
        shown = "".join(character for character in name if character.isprintable())[:_LONGEST]
        raise CannotRegister(
            f"There is no {shown} in the models directory that belongs to no model yet. Choose one of those listed."
        )
    if candidate.problem:
        raise CannotRegister(candidate.problem)
    return candidate


def name_of(path: Path) -> str | None:
    """Return by which name `path`, or the model that it is a part of, can be found here; ``None`` where it cannot."""
    root, place = Path(settings.LMSP.models_dir).resolve(), path.resolve()
    first = place.with_name(sources.parts_of(place.name)[0])
    if not first.is_relative_to(root):
        return None
    candidate = unregistered().get(first.relative_to(root).as_posix())
    return candidate.name if candidate and not candidate.problem else None


def _taken() -> set[Path]:
    return {path for model in LanguageModel.objects.all() for path in (model.path, *model.paths)}


def _walk(root: Path, taken: set[Path], depth: int) -> Iterator[Path]:
    """Go through what may be models, at most so deep and so much that a page can wait for it."""
    left, looked = [(root, depth)], 0
    while left:
        folder, depth = left.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            looked += 1
            if looked > _MOST_LOOKED_AT:
                return
            path = Path(entry.path)
            if entry.name.startswith(".") or not entry.name.isprintable() or path in taken:
                continue
            if entry.is_dir(follow_symlinks=False):
                if _is_model_folder(path):
                    yield path
                elif depth:
                    left.append((path, depth - 1))
            elif entry.is_file(follow_symlinks=False) and _is_first(entry.name):
                yield path


def _is_model_folder(path: Path) -> bool:
    # A GGUF file often has the original's config.json beside it.
    return (path / "config.json").is_file() and next(path.glob("*.safetensors"), None) is not None


def _is_first(name: str) -> bool:
    return name.lower().endswith(".gguf") and sources.parts_of(name)[0] == name


def _candidate(name: str, path: Path) -> Candidate:
    try:
        source = sources.find(path)
    except CannotRegister as refusal:
        return Candidate(name, Source(path, {}, folder=path.is_dir()), str(refusal))
    if linked := [file.name for file in source.files.values() if file.is_symlink()]:
        return Candidate(name, source, f"{linked[0]} of {name} is a link; put the file itself in its place.")
    if len(name) > _LONGEST:
        return Candidate(name, source, f"The path {name} is longer than {_LONGEST} characters; give it a shorter one.")
    return Candidate(name, source)
