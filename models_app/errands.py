"""Commands that a child of this process carries out, because they take longer than a page may."""

import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path


def begin(command: str, *arguments: str, held: Collection[int] = ()) -> int:
    """Have a child run a command of ``manage.py``, and return its id; what it tells nobody reads.

    Args:
        command: its name.
        *arguments: what it is told beside ``--json``.
        held: descriptors that it gets as well, such as that of a lock which is to live as long as it does.
    """
    nobody = subprocess.DEVNULL
    child = subprocess.Popen(
        [sys.executable, "manage.py", command, *arguments, "--json"],
        cwd=Path(__file__).parent.parent,
        stdin=nobody,
        stdout=nobody,
        stderr=nobody,
        pass_fds=tuple(held),
    )
    # Whoever ends is waited for, so that none is left in the table of processes.
    threading.Thread(target=child.wait, daemon=True).start()
    return child.pid
