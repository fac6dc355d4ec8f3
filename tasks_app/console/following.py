"""A task's log as it grows, for a program without an event loop; see ``stream`` for the one that has it."""

import select
import time
from collections.abc import Iterator

from tasks_app import event_log, stream, wakeup
from tasks_app.event_log import Entry


def follow(task_id: str) -> Iterator[Entry]:
    """Yield a task's entries as they come, from the first to the terminal one; end as well when it is deleted."""
    after = -1
    # Listening from before the first read on: nothing is written between the two unheard.
    with wakeup.Listener.for_tasks() as listener:
        while True:
            page, ended = stream.read_on(task_id, after)
            for entry in page:
                yield entry
                if entry.is_terminal:
                    return
                after = entry.sequence_number
            if ended:
                return
            if not event_log.is_full(page):
                _wait(listener, task_id)


def _wait(listener: wakeup.Listener, task_id: str) -> None:
    """Wait until the task's log may have grown; what other tasks say is passed over."""
    deadline = time.monotonic() + stream.LOOK_ANYWAY_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        if select.select([listener], [], [], left)[0] and {task_id, wakeup.EVERYTHING} & listener.take():
            return
