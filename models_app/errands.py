"""Commands that a child of this process carries out, because they take longer than a page may."""

import subprocess
import sys
import threading
from pathlib import Path


def begin(command: str, *arguments: str) -> int:
    """Have a child run a command of ``manage.py``, and return its id; what it tells nobody reads."""
    nobody = subprocess.DEVNULL
    child = subprocess.Popen(
        [sys.executable, "manage.py", command, *arguments, "--json"],
        cwd=Path(__file__).parent.parent,
        stdin=nobody,
        stdout=nobody,
        stderr=nobody,
    )
    # Whoever ends is waited for, so that none is left in the table of processes.
    threading.Thread(target=child.wait, daemon=True).start()
    return child.pid
