"""Copies of the database file: taken while others write to it, verified, and put in its place."""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from lmsp_site.data_dir import PRIVATE_FILE

# 4 MB at the usual page size: how often progress is told.
_PAGES_A_STEP = 1024
_BYTES_BETWEEN_SYNCS = 32 << 20
# A database without a table: what every command makes where there is none.
_EMPTY_BYTES = 8192
_WAL, _SHM = "-wal", "-shm"

Progress = Callable[[int, int], None]


class CannotCopy(Exception):
    """The copy cannot be made or trusted; the message says why and is meant for a person."""


class InUse(Exception):
    """Some process has the database open."""


@contextmanager
def draft_beside(target: Path) -> Iterator[Path]:
    """Make an empty file, readable by its owner only, that can take the place of `target`; remove it if it did not."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise CannotCopy(f"Nothing can be written beside {target}: {error.strerror}.") from error
    os.close(descriptor)
    draft = Path(name)
    draft.chmod(PRIVATE_FILE)
    try:
        yield draft
    finally:
        for leftover in (draft, *_beside(draft)):
            leftover.unlink(missing_ok=True)


def copy(source: Path, draft: Path, progress: Progress) -> None:
    """Copy the database `source`, as it is at this moment, into the empty file `draft`, a single file on the disk.

    SQLite's backup begins anew whenever another process has written: in steps of any size it never ends beside
    tasks that run (measured: 2,674 beginnings in 30 s at 150 commits a second). Within a transaction for reading the
    source stands still, and in WAL mode nobody waits for that: 330 MB take 2.4 s, as they do in one single step, and
    the median commit meanwhile is as fast as without. A step tells how far it is. What is written is synced now and
    then; all of it at once at the end made commits wait for up to 1.3 s, so for a quarter to half a second.

    Args:
        source: in use by anybody.
        draft: see ``draft_beside``.
        progress: is told bytes done and bytes in all.

    Raises:
        CannotCopy: `source` is no database that can be read, or there is no room.
    """
    try:
        with (
            closing(sqlite3.connect(_uri(source), uri=True, isolation_level=None)) as reader,
            closing(sqlite3.connect(draft, isolation_level=None)) as writer,
            draft.open("rb") as file,
        ):
            page = int(reader.execute("PRAGMA page_size").fetchone()[0])
            # Nobody sees the draft before it is whole.
            writer.execute("PRAGMA synchronous=OFF")
            writer.execute("PRAGMA journal_mode=OFF")
            unsynced = 0

            def step(_status: int, remaining: int, total: int) -> None:
                nonlocal unsynced
                unsynced += _PAGES_A_STEP * page
                if unsynced >= _BYTES_BETWEEN_SYNCS:
                    os.fsync(file.fileno())
                    unsynced = 0
                progress((total - remaining) * page, total * page)

            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reader.backup(writer, pages=_PAGES_A_STEP, progress=step)
        make_single(draft)
    except (sqlite3.Error, OSError) as error:
        raise CannotCopy(f"{source} cannot be copied: {error}.") from error


def _uri(source: Path) -> str:
    uri = f"{source.absolute().as_uri()}?mode=ro"
    if os.access(source.parent, os.W_OK) or source.with_name(source.name + _WAL).exists():
        return uri
    # Even to read it SQLite would make its log, where nothing can be made; and nobody else can write to it either.
    return f"{uri}&immutable=1"


def make_single(database: Path) -> None:
    """Bring what stands in the log of `database` into its file, which needs no other beside it then, and sync it.

    Raises:
        InUse: a process has it open.
    """
    with closing(sqlite3.connect(database, timeout=1, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise InUse(f"{database} is open in another process.") from error
            raise
    with database.open("rb") as file:
        os.fsync(file.fileno())


def verify(database: Path) -> None:
    """Read all of `database`, which nobody uses.

    Raises:
        CannotCopy: it is damaged.
    """
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            faults = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
            strays = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        raise CannotCopy(f"The copy cannot be read: {error}.") from error
    if faults != ["ok"]:
        raise CannotCopy(f"The copy is damaged: {'; '.join(faults)}.")
    if strays:
        raise CannotCopy(f"The copy is damaged: a row of {strays[0][0]} refers to none of {strays[0][2]}.")


def publish(draft: Path, target: Path, *, replace: bool) -> None:
    """Give `draft` its name, whole or not at all.

    Raises:
        FileExistsError: there is such a file, and it is not to be replaced.
    """
    if replace:
        draft.replace(target)
    else:
        os.link(draft, target)
    _sync_directory(target.parent)


def put_in_place(draft: Path, database: Path, aside: Path) -> bool:
    """Let `draft` be the database from now on, and keep the one that was there as `aside`; tell whether there was one.

    At every moment there is a whole database under that name: a command that finds none would make an empty one.

    Raises:
        InUse: a process has the database open. Nothing was changed.
    """
    # Of one that is damaged, which may be the very reason, the log is kept beside it for whoever wants to look.
    with suppress(sqlite3.DatabaseError):
        make_single(database)
    if keep := database.stat().st_size > _EMPTY_BYTES:
        os.link(database, aside)
    for log in _beside(database):
        if log.exists():
            # Nothing of it may be applied to the new file.
            log.replace(aside.with_name(aside.name + log.name.removeprefix(database.name)))
    draft.replace(database)
    _sync_directory(database.parent)
    return keep


def _beside(database: Path) -> list[Path]:
    return [database.with_name(database.name + suffix) for suffix in (_WAL, _SHM, "-journal")]


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
