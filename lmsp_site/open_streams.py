"""How many event streams are open, in all web processes together.

Each process keeps its own numbers in a file that it holds a lock on. Whoever asks adds up the files whose locks are
held: a process that was killed has no streams any more, whatever its file says.
"""

import fcntl
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from django.conf import settings

from lmsp_site import data_dir, file_lock

SSE, WEBSOCKET = TRANSPORTS = ("sse", "websocket")
_WIDTH = 10
_open: Counter[str] = Counter()


@contextmanager
def counted(transport: str) -> Iterator[None]:
    """Count one stream while the body runs; to be called on the event loop alone, of which a process has one."""
    _change(transport, 1)
    try:
        yield
    finally:
        _change(transport, -1)


def totals(run_dir: Path) -> dict[str, int]:
    """Return the number of open streams by transport."""
    found = Counter(dict.fromkeys(TRANSPORTS, 0))
    for path in _directory(run_dir).iterdir():
        with suppress(FileNotFoundError):
            if file_lock.is_held(path):
                text = path.read_text()
                found.update({name: int(number) for name, number in zip(TRANSPORTS, text.split(), strict=False)})
    return dict(found)


def _change(transport: str, by: int) -> None:
    _open[transport] += by
    # One write of always the same length: a reader sees the old numbers or the new ones.
    text = " ".join(f"{_open[name]:{_WIDTH}d}" for name in TRANSPORTS)
    # A stream is worth more than its being counted, for example on a full disk.
    with suppress(OSError):
        os.pwrite(_own_file(os.getpid()), text.encode(), 0)


@cache
def _own_file(pid: int) -> int:
    """Return the descriptor of this process's file, made at its first stream, when those of the dead are removed."""
    run_dir = Path(settings.LMSP.run_dir)
    directory = _directory(run_dir)
    # Between being made and being locked, a file looks like that of a dead process.
    with data_dir.exclusive(run_dir / "streams.lock"):
        for path in directory.iterdir():
            if not file_lock.is_held(path):
                path.unlink()
        descriptor, _ = tempfile.mkstemp(prefix=f"web-{pid}-", dir=directory)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _directory(run_dir: Path) -> Path:
    directory = run_dir / "streams"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory
