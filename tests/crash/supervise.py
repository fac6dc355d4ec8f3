"""Run a supervisor over the children that the command line describes: ``supervise.py DIRECTORY JSON``."""

import json
import logging.config
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
    supervisor.Supervisor(children, description["grace"], partial(is_ready, directory / "ready"), pace).run()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
