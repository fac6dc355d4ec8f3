"""Files with the cache of a sequence, so that a resume need not decode a long output all over again.

A checkpoint is never the truth, only a short cut to it. It holds the cache together with the tokens that made it and
the row count of each; a resume takes from it what its journal says as well, and replays the rest. One that is
missing, damaged, of another engine or ahead of the journal costs time and nothing else.
"""

import hashlib
import json
import logging
import mmap
import os
import queue
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

_FORMAT = 1
_LONGEST_HEADER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a cache: equal origins have equal bits.

    `rows[i]` is the row count of the decode that fed `tokens[i]` (a journal keeps it with the token after that one).
    """

    fingerprint: str
    prompt: Sequence[int]
    tokens: Sequence[int]
    rows: Sequence[int]

    def common(self, other: "Origin") -> int:
        """Count the generated tokens up to which both have the same cache; -1 where not even the prompt is the same."""
        if self.fingerprint != other.fingerprint or list(self.prompt) != list(other.prompt):
            return -1
        mine, theirs = zip(self.tokens, self.rows, strict=True), zip(other.tokens, other.rows, strict=True)
        count = 0
        for one, another in zip(mine, theirs, strict=False):
            if one != another:
                break
            count += 1
        return count


class Writer:
    """Writes checkpoints in a thread of its own, one at a time: who decodes never waits for the disk."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Path, int, Origin, mmap.mmap]] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether one is being written: another one would have to wait in memory."""
        return not self._idle.is_set()

    def write(self, path: Path, keep_free: int, origin: Origin, state: mmap.mmap) -> None:
        """Have `state` written to `path`, in place of an earlier one, unless less than `keep_free` bytes stay free."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()
        self._idle.clear()
        self._jobs.put((path, keep_free, origin, state))

    def wait(self) -> None:
        """Wait until all is written."""
        self._idle.wait()

    def _run(self) -> None:
        while True:
            path, keep_free, origin, state = self._jobs.get()
            try:
                if shutil.disk_usage(path.parent).free - len(state) >= keep_free:
                    _write(path, origin, state)
                else:
                    _log.warning("no room for a checkpoint", extra={"path": str(path), "bytes": len(state)})
            except OSError as error:
                _log.warning("checkpoint not written", extra={"path": str(path), "error": str(error)})
            finally:
                state.close()
                self._idle.set()


def _write(path: Path, origin: Origin, state: mmap.mmap) -> None:
    header = {
        "format": _FORMAT,
        "fingerprint": origin.fingerprint,
        "prompt": list(origin.prompt),
        "tokens": list(origin.tokens),
        "rows": list(origin.rows),
        "sha256": hashlib.sha256(state).hexdigest(),
    }
    # Whole or not at all where a process is killed; after a power cut, which is not waited for, the digest tells.
    draft = path.with_name(f"{path.name}.draft")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            file.write(state)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[Origin, bytes] | None:
    """Return what made the cache, and the cache; ``None`` where there is no checkpoint, or none that can be trusted."""
    try:
        with path.open("rb") as file:
            header: dict[str, Any] = json.loads(file.readline(_LONGEST_HEADER))
            state = file.read()
        if header["format"] == _FORMAT and hashlib.sha256(state).hexdigest() == header["sha256"]:
            return Origin(header["fingerprint"], header["prompt"], header["tokens"], header["rows"]), state
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("unreadable checkpoint", extra={"path": str(path), "error": str(error)})
        return None
    _log.warning("damaged checkpoint", extra={"path": str(path)})
    return None
