"""Which files make up the model that a person names: a GGUF file, all parts of a split one, a folder of safetensors.

Told by names alone; what the files hold is looked at by ``inspecting``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from models_app.refusals import CannotRegister

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<parts>\d{5})\.gguf", re.IGNORECASE)
_MOST_PARTS = 1000
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# Of a folder: weights, configuration, vocabulary and templates. Nothing that would have to be run to be read.
_KEPT = (".safetensors", ".json", ".model", ".txt", ".jinja")


@dataclass(frozen=True, slots=True)
class Source:
    """A model somewhere on disk.

    Attributes:
        path: what is opened: the file, the first part, or the folder.
        files: its files by the names that they get in the catalogue.
        folder: whether it becomes a folder in the catalogue, too.
    """

    path: Path
    files: dict[str, Path]
    folder: bool

    @property
    def to_inspect(self) -> list[Path]:
        """What tells what kind of model it is."""
        return [self.path] if self.path.is_dir() else list(self.files.values())


def find(path: Path) -> Source:
    """Return the model at `path`.

    Raises:
        CannotRegister: there is none, or a part of it is missing.
    """
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise CannotRegister(f"{path} is not a file, nor a folder with a model in it.")
    if path.suffix == ".safetensors":
        raise CannotRegister(f"{path.name} is a part of a model: name the folder that holds it and its config.json.")
    if match := _PART.fullmatch(path.name):
        return _split(path, match)
    return Source(path, {path.name: path}, folder=False)


def _folder(path: Path) -> Source:
    if not (path / "config.json").is_file():
        if found := sorted(path.glob("*.gguf")):
            raise CannotRegister(f"{path} is a folder of GGUF files; name one of them, such as {found[0].name}.")
        raise CannotRegister(f"{path} is not a file, nor a folder with a model in it: it has no config.json.")
    files = {file.name: file for file in sorted(path.iterdir()) if is_kept(file.name) and file.is_file()}
    for name in files:
        if not _FILE_NAME.fullmatch(name):
            raise CannotRegister(f"{path} has a file with the name {name!r}; rename it, with letters and digits only.")
    return Source(path, files, folder=True)


def _split(path: Path, match: re.Match[str]) -> Source:
    parts = int(match["parts"])
    if not 0 < int(match["number"]) <= parts <= _MOST_PARTS:
        raise CannotRegister(f"{path.name} has the name of part {int(match['number'])} of {parts}.")
    # llama.cpp finds the others by the first one's name. Their own name has no say in the digest.
    names = [path.with_name(name) for name in parts_of(path.name)]
    found = dict(zip(names_of_parts(parts), names, strict=True))
    if missing := [file.name for file in found.values() if not file.is_file()]:
        raise CannotRegister(f"{path.name} is one of {parts} parts, and {missing[0]} is not beside it.")
    return Source(next(iter(found.values())), found, folder=True)


def parts_of(name: str) -> list[str]:
    """Return the names of all parts of the split GGUF model that one part's name belongs to; of any other its own."""
    match = _PART.fullmatch(name)
    if match is None or not 0 < int(match["number"]) <= int(match["parts"]) <= _MOST_PARTS:
        return [name]
    parts, suffix = int(match["parts"]), name[-len(".gguf") :]
    return [f"{match['stem']}-{number:05}-of-{parts:05}{suffix}" for number in range(1, parts + 1)]


def names_of_parts(parts: int) -> list[str]:
    """Return what the parts of a split GGUF model are called in the catalogue."""
    return [f"model-{number:05}-of-{parts:05}.gguf" for number in range(1, parts + 1)]


def is_kept(name: str) -> bool:
    """Tell whether a file of a folder belongs to its model."""
    return Path(name).suffix in _KEPT
