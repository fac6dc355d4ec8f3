"""Run a supervisor over the children that the command line describes: ``supervise.py DIRECTORY JSON``."""

import json
import logging.config
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from lmsp_site import logs, supervisor
from lmsp_site.children import ChildSpec


def stalls_once(mark: Path) -> bool:
    if not mark.exists():
        return False
    if mark.read_text():
        raise RuntimeError(mark.read_text())
    mark.unlink()
    return True


def is_ready(mark: Path) -> bool:
    mark.touch()
    return True


def announce(directory: Path) -> None:
    """Write the announcement down between what the children write, and fail where that is wanted."""
    with (directory / "journal").open("a") as journal:
        journal.write(f"supervisor announced {os.getpid()}\n")
    if (directory / "cannot-announce").exists():
        raise OSError("no announcement")


def main(directory: Path, description: dict[str, Any]) -> None:
    logging.config.dictConfig(logs.configuration("json", "INFO"))
    try:
        supervisor.hold(directory / "serve.lock")
    except supervisor.AlreadyServedError as refusal:
        sys.exit(str(refusal))
    children = [
        ChildSpec(name, command, stalled=partial(stalls_once, directory / f"{name}-stalls"))
        for name, command in description["children"].items()
    ]
    pace = supervisor.Pace(**description["pace"])
    ready, stopping = partial(is_ready, directory / "ready"), partial(announce, directory)
    supervisor.Supervisor(children, description["grace"], ready, stopping, pace).run()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
