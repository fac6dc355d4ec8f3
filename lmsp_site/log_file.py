"""The log file that all processes of a service write, and its older generations.

No process waits for another: a line is one write to a file that is only appended to, which the kernel does as a whole.
Whoever finds the file full renames it, if nobody else is doing so just now; the others see at their next line that the
name is another file's and open that one. A line that was being written meanwhile is in the older file.
"""

import fcntl
import logging
import os
from pathlib import Path

GENERATIONS = 5
_PRIVATE = 0o600


class LogFileHandler(logging.Handler):
    """Writes lines to a file that others write and rename as well.

    A line that cannot be written, the disk being full, is lost here; work goes on.

    Args:
        path: the file; older ones get `.1`, `.2` and so on.
        most_bytes: the size from which on it is renamed.
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        super().__init__()
        self._path = path
        self._most_bytes = most_bytes
        self._file: int | None = None
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            self._write(f"{self.format(record)}\n".encode(errors="backslashreplace"))
        except OSError:
            return  # Standard error has the line too.
        except Exception:  # noqa: BLE001 - as every handler of the standard library
            self.handleError(record)

    def close(self) -> None:
        """Close the file."""
        self.acquire()
        try:
            if self._file is not None:
                os.close(self._file)
                self._file = None
        finally:
            self.release()
        super().close()

    def _write(self, line: bytes) -> None:
        descriptor = self._current()
        if self._torn:
            line = b"\n" + line
        # Where the disk becomes full in the middle of a line, the next one is to stand by itself.
        self._torn = os.write(descriptor, line) < len(line)
        if os.fstat(descriptor).st_size > self._most_bytes:
            self._rotate(descriptor)

    def _current(self) -> int:
        """Return the file that has the name now."""
        if self._file is not None and not _is(self._file, self._path):
            os.close(self._file)
            self._file = None
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self._path, flags, _PRIVATE)
        return self._file

    def _rotate(self, full: int) -> None:
        lock = os.open(f"{self._path}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another may have done it between the look and the lock.
            if _is(full, self._path):
                _shift(Path(self._path))
        except BlockingIOError:
            return
        finally:
            os.close(lock)


def _is(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False


def _shift(path: Path) -> None:
    """Rename each generation to the next older one, up to the first that is missing.

    Whoever died in the middle of this has left a gap, which is filled: no generation is lost to that.
    """
    generations = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, GENERATIONS))]
    missing = next((index for index, file in enumerate(generations) if not file.exists()), len(generations) - 1)
    for number in range(missing, 0, -1):
        generations[number - 1].rename(generations[number])
