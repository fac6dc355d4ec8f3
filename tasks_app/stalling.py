"""Whether the workers take what there is to take: a cluster can look alive and hear no bell."""

import os
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from tasks_app.models import Task

_STALLED_AFTER_SECONDS = 5.0
_MOMENT_SECONDS = 1.0
_LOOK_SECONDS = 0.05


def beat() -> None:
    """Show that a worker is at work; called whenever one looks for a task, and while it waits before a claim."""
    now = time.monotonic_ns()
    with suppress(OSError):
        _beat_file().touch()
        # Not by the time of day, which anybody may set.
        os.utime(_beat_file(), ns=(now, now))


class StallWatch:
    """Notices the cluster that takes no jobs; asked every few seconds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def begin_anew(self) -> None:
        """Leave out of account what was seen so far: the workers had no chance."""
        self._since = None

    def stalled(self) -> bool:
        """Tell whether tasks have been claimable for too long beside workers that take nothing.

        The sweep has rung for those tasks meanwhile, so that a sound cluster would have shown itself.
        """
        if not _work_is_left() or not _can_write():
            self.begin_anew()
            return False
        now = time.monotonic()
        self._since = max(self._since or now, _last_beat())
        stalled = now - self._since > _STALLED_AFTER_SECONDS
        if stalled:
            self.begin_anew()
        return stalled


def takes_no_jobs() -> bool:
    """Tell at one look what ``StallWatch`` finds out by many; takes a moment only where it looks like that."""
    return _is_left_lying() and not _shows_itself() and _is_left_lying()


def _is_left_lying() -> bool:
    if time.monotonic() - _last_beat() < _STALLED_AFTER_SECONDS or not _work_is_left():
        return False
    # What came a moment ago has had no time to be taken.
    return Task.objects.has_waited_since(timezone.now() - timedelta(seconds=_STALLED_AFTER_SECONDS))


def _shows_itself() -> bool:
    """Wait a moment for a worker that has finished a task just now, or has just been given one to resume."""
    before, deadline = _last_beat(), time.monotonic() + _MOMENT_SECONDS
    while time.monotonic() < deadline:
        if _last_beat() != before:
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _work_is_left() -> bool:
    """Tell whether there is something to claim, and a worker that holds nothing and could."""
    claimed = Task.objects.claimed().exclude(owner=None).count()
    return claimed < settings.LMSP.max_running and Task.objects.count_claimable(1) > 0


def _can_write() -> bool:
    """Tell whether the database takes writes: where it does not, workers that take nothing are not to blame."""
    try:
        # Its beginning takes the lock.
        with transaction.atomic():
            return True
    except DatabaseError:
        return False


def _last_beat() -> float:
    """Return when a worker was last at work, by the monotonic clock; 0 for never since the machine's start."""
    try:
        beat = _beat_file().stat().st_mtime_ns / 1e9
    except FileNotFoundError:
        return 0.0
    return beat if beat <= time.monotonic() else 0.0


def _beat_file() -> Path:
    return Path(settings.LMSP.run_dir) / "workers.beat"
