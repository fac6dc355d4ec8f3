"""Models whose engines crash while they load, and how long to leave them alone."""

import os
import time
from dataclasses import dataclass

_FIRST_DELAY = 5.0
_LONGEST_DELAY = 300.0
_TOLERATED = 2
_TOLERATED_KILLS = 5
"""Somebody else's deed, or the kernel's where memory is short: it says little about the model."""

Signature = tuple[int, int, int] | None


@dataclass(slots=True)
class _Record:
    signature: Signature
    crashes: int = 0
    retry_at: float = 0.0
    status: str = ""


class CrashRecord:
    """How often the engine of each model has crashed in a row; a file that has changed is given a new chance."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def note(self, key: str, path: str, status: str) -> None:
        """Note that the engine ended with `status` while it loaded the file at `path`."""
        record = self._records.get(key)
        if record is None or record.signature != _signature(path):
            record = self._records[key] = _Record(_signature(path))
        record.crashes += 1
        record.status = status
        excess = record.crashes - (_TOLERATED_KILLS if status == "SIGKILL" else _TOLERATED)
        if excess > 0:
            record.retry_at = time.monotonic() + min(_FIRST_DELAY * 2.0 ** min(excess - 1, 10), _LONGEST_DELAY)

    def forget(self, key: str) -> None:
        """The model was loaded, or somebody wants it to be tried now."""
        self._records.pop(key, None)

    def objection(self, key: str, path: str) -> str | None:
        """Say why the model is not to be loaded now; ``None`` where nothing speaks against it."""
        record = self._records.get(key)
        if record is None or record.signature != _signature(path):
            return None
        remaining = record.retry_at - time.monotonic()
        if remaining <= 0:
            return None
        return (
            f"The engine has crashed {record.crashes} times in a row while it loaded this model, the last time with "
            f"status {record.status}; it is tried again in {remaining:.0f} s, or when its file has changed."
        )


def _signature(path: str) -> Signature:
    try:
        found = os.stat(path)  # noqa: PTH116 -- what identifies the file, in one call
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
