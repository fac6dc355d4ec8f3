"""Folders inside ``models/`` in which a model grows until it is whole; what a killed process has left is removed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

from lmsp_site import data_dir

_PREFIX = ".incoming-"


@contextmanager
def folder() -> Iterator[Path]:
    """Give a new folder on the disk of ``models/``, and remove it with what is left in it."""
    models = Path(settings.LMSP.models_dir)
    # From its making to its lock nobody may take it for one that was left.
    with data_dir.exclusive(settings.LMSP.run_dir / "staging.lock"):
        _remove_leftovers(models)
        made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=models))
        held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(held)


def _remove_leftovers(models: Path) -> None:
    for left in models.glob(f"{_PREFIX}*"):
        if not left.is_dir() or left.is_symlink():
            continue
        with suppress(OSError):  # Another user's, or gone by now.
            looked = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                # The lock of whoever made it has ended with him.
                fcntl.flock(looked, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(looked)
