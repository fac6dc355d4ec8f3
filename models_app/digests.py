"""What a model's files hold, as digests, and what shows cheaply that they have not been written to."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

_BLOCK = 1 << 20

OnBytes = Callable[[int], None]


def ignore(_count: int) -> None:
    """Tell nobody how many bytes were read."""


class FileEntry(TypedDict):
    """A file of a model as it was registered: its name inside the model, size in bytes, SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str


Stamp = list[int]
"""Size, time of the last change in nanoseconds, and inode: they change where a file is written to or replaced."""


def of_manifest(files: Sequence[FileEntry]) -> str:
    """Return the digest of a model.

    Of one file it is the file's own. Of several it is that of the lines that ``sha256sum`` prints of them, by name.
    """
    if len(files) == 1:
        return f"sha256:{files[0]['sha256']}"
    lines = "".join(f"{entry['sha256']}  {entry['name']}\n" for entry in sorted(files, key=lambda entry: entry["name"]))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def of_file(path: Path, on_bytes: OnBytes = ignore) -> str:
    """Return the SHA-256 of a file; `on_bytes` is told of each block how long it was, and may raise to give up."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            on_bytes(len(block))
    return sha256.hexdigest()


def copy(source: Path, target: Path, on_bytes: OnBytes = ignore) -> FileEntry:
    """Copy a file, synced to the disk, and return what was copied."""
    sha256, size = hashlib.sha256(), 0
    with source.open("rb") as reader, target.open("xb") as writer:
        while block := reader.read(_BLOCK):
            sha256.update(block)
            size += writer.write(block)
            on_bytes(len(block))
        writer.flush()
        os.fsync(writer.fileno())
    return {"name": target.name, "size": size, "sha256": sha256.hexdigest()}


def stamp(path: Path) -> Stamp:
    """Return what changes where the file is written to. `OSError` where there is none."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]
