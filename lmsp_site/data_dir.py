"""The data directory: its layout, its permissions, and the secret key in it."""

import fcntl
import os
import secrets
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
_PRIVATE_FILES = ("secret_key", "db.sqlite3*", "logs/*")
SUBDIRECTORIES = ("models", "checkpoints", "run", "logs")


_NOT_THE_OWNER = 0o077


def prepare(data_dir: Path) -> None:
    """Make the data directory and its parts, readable by their owner only, and have this process make all files so.

    What is there and open to others is closed to them: the directory that somebody made by hand, a database that was
    copied into it. A directory that is no data directory yet and not empty is left as it is; what is made in it is not.
    """
    os.umask(_NOT_THE_OWNER)
    is_ours = not data_dir.exists() or _is_data_dir(data_dir)
    parts = [data_dir / name for name in SUBDIRECTORIES]
    for directory in (data_dir, *parts):
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    files = [path for name in _PRIVATE_FILES for path in data_dir.glob(name)]
    for path in (*([data_dir] if is_ours else []), *parts, *files):
        _close_to_others(path)


def _is_data_dir(path: Path) -> bool:
    return (path / "secret_key").exists() or next(path.iterdir(), None) is None


def _close_to_others(path: Path) -> None:
    with suppress(FileNotFoundError):  # SQLite removes files of its own at any time.
        found = path.lstat()
        # A link leads to what others may be meant to have as well, such as a directory of models.
        if not path.is_symlink() and found.st_uid == os.geteuid() and found.st_mode & _NOT_THE_OWNER:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_NOT_THE_OWNER)


def secret_key(data_dir: Path) -> str:
    """Return the key that signs sessions and jobs, made at the first call.

    Any number of processes may make it at once; all of them return the key of the one that was first.
    """
    path = data_dir / "secret_key"
    try:
        return path.read_text()
    except FileNotFoundError:
        pass
    # A link to a whole, synced file: no reader ever sees half a key, and a second maker cannot replace it.
    descriptor, draft = tempfile.mkstemp(prefix=".secret_key.", dir=data_dir)
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, PRIVATE_FILE)
            file.write(secrets.token_urlsafe(64))
            file.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()
    return path.read_text()


def create_database(path: Path) -> None:
    """Make the database file with what can only be chosen before its first table; leave one that is there.

    Not at every connection: setting ``auto_vacuum`` takes the write lock, and every reader would wait for it.
    """
    if path.exists():
        return
    descriptor, draft = tempfile.mkstemp(prefix=".database.", dir=path.parent)
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
        # As with the key: whoever is first makes it, whole.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it now."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
