"""A child process that writes down what happens to it: ``child.py NAME JOURNAL [TRAIT...]``."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

name, journal, *traits = sys.argv[1:]


def note(event: str) -> None:
    with Path(journal).open("a") as file:
        file.write(f"{name} {event} {os.getpid()}\n")


def stop(_signum: int, _frame: object) -> NoReturn:
    note("stopped")
    sys.exit(0)


def interrupted(_signum: int, _frame: object) -> None:
    note("interrupted")


signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in traits else stop)
signal.signal(signal.SIGINT, interrupted)
if "crashing" in traits:
    note("started")
    sys.exit(3)
if "parent" in traits and os.fork() == 0:
    # Neither its parent's group nor a signal of its own choosing ends this one.
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("grandchild")
    signal.pause()
note("started")
while True:
    signal.pause()
