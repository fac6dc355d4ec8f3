"""Where the engine keeps the caches of long generations, and when they are thrown away.

A file for each task that is to be resumed. What it holds could be computed again from the task's snapshot, so nothing
is lost with it; it is of use as long as its task is running.
"""

from pathlib import Path

from django.conf import settings

from lmsp_site.models import RestartPolicy
from models_app.engines.base import Checkpoint
from tasks_app.models import Task
from tasks_app.states import Status


def of(task: Task) -> Checkpoint | None:
    """Return where the cache of `task` is kept; ``None`` for a task that nobody would resume, or where none is kept."""
    every = settings.LMSP.checkpoint_tokens
    if not every or task.on_restart != RestartPolicy.RESUME:
        return None
    return Checkpoint(str(path_of(task.id)), keep_free=settings.LMSP.min_free_bytes, every=every)


def path_of(task_id: str) -> Path:
    """Return the file of a task, which need not be there."""
    return _directory() / task_id


def sweep() -> int:
    """Remove the files of tasks that are not running any more; return how many.

    Here and not by whoever ends a task: an engine may just be writing one then.
    """
    files = list(_directory().iterdir())
    if not files:
        return 0
    # A file that is being written has its task's id and an ending.
    ids = {file.stem for file in files}
    running = set(Task.objects.filter(pk__in=ids, status=Status.RUNNING).values_list("pk", flat=True))
    left_over = [file for file in files if file.stem not in running]
    for file in left_over:
        file.unlink(missing_ok=True)
    return len(left_over)


def _directory() -> Path:
    directory: Path = settings.LMSP.checkpoints_dir
    return directory
