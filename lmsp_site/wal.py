"""The write-ahead log's length: SQLite never shortens it by itself, and a reader who stays makes it grow.

Every commit that leaves more than 4 MB in the log copies into the database what no reader needs any more. Where
nobody reads an old state the log then begins anew, in the same file.
"""

import logging
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from threading import Thread

logger = logging.getLogger(__name__)

LONG_BYTES = 32 << 20
# To shorten the log, writers are shut out: for the copying of so many pages and for waiting for readers at most.
_MOST_PAGES = 1000
_PATIENCE_MS = 50
# The bytes of the -shm file that SQLite locks for those who read.
_READ_LOCKS = range(123, 128)


def size(database: Path) -> int:
    """Return the bytes of the log; 0 where there is none."""
    try:
        return _path(database).stat().st_size
    except FileNotFoundError:
        return 0


def note(database: Path) -> str | None:
    """Return what people should know of the log; ``None`` while there is nothing."""
    length = size(database)
    if length <= LONG_BYTES:
        return None
    return (
        f"The write-ahead log has grown to {length >> 20} MB: some process reads an old state of the database. "
        "The service's log says which."
    )


def settle(database: Path) -> None:
    """Have the log on the disk; where it is long, a thread brings its pages into the database meanwhile.

    For whoever has written much without waiting for the disk, and has others wait for him. Call it before the last
    connection is closed, which would bring the pages home, and wait for it.
    """
    try:
        with _path(database).open("rb") as log:
            os.fsync(log.fileno())
    except FileNotFoundError:
        return
    if size(database) > LONG_BYTES:
        own = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
        # Only now it has the database open.
        own.execute("SELECT count(*) FROM sqlite_master").fetchone()
        Thread(target=_bring_home, args=(own,), name="checkpoint").start()


class Keeper:
    """Shortens the log of one database; asked every few seconds."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._readers: set[int] | None = None
        self._since = 0.0
        self._told = False

    def tend(self) -> None:
        """Look at the log, shorten it where it is long, and say once who hinders that."""
        if size(self._database) > LONG_BYTES:
            try:
                _shorten(self._database)
            except sqlite3.Error as error:
                logger.info("write-ahead log not shortened", extra={"error": str(error)})
        length = size(self._database)
        if length > LONG_BYTES:
            self._note_readers(length)
            return
        if self._told:
            seconds = round(time.monotonic() - self._since)
            logger.info("write-ahead log is short again", extra={"bytes": length, "seconds": seconds})
        self._readers, self._told = None, False

    def _note_readers(self, length: int) -> None:
        # Whoever is seen each time has not come and gone.
        found = _readers(self._database)
        if self._readers is None:
            self._readers, self._since = found, time.monotonic()
            return
        self._readers &= found
        if not self._told:
            self._told = True
            readers = ", ".join(map(_describe, sorted(self._readers))) or "unknown"
            logger.warning("write-ahead log cannot be shortened", extra={"bytes": length, "readers": readers})


def _bring_home(own: sqlite3.Connection) -> None:
    with closing(own):
        own.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def _shorten(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
        # First what hinders nobody; somebody else may be at it already.
        busy, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        # Where a reader needs the rest, trying would only make writers wait.
        if not busy and pages - copied <= _MOST_PAGES:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _readers(database: Path) -> set[int]:
    """Return the processes that read the database at this moment (Linux).

    Asked of the kernel: whoever opens the -shm file and closes it loses the locks that SQLite holds on it for him.
    """
    try:
        file = database.with_name(f"{database.name}-shm").stat()
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return set()
    name = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    found = set()
    for lock in locks:
        match lock.split():
            case [_, "POSIX", _, "READ", pid, locked, first, last] if locked == name and last != "EOF":
                if int(first) < _READ_LOCKS.stop and int(last) >= _READ_LOCKS.start:
                    found.add(int(pid))
            case _:
                pass
    return found


def _describe(pid: int) -> str:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        arguments = []
    return f"{pid} ({b' '.join(arguments)[:80].decode(errors='replace')})"
