"""The process of one loaded model: `python -m models_app.engines.process --socket ADDRESS --spec JSON`.

Loads, says so on a pipe (`loading`, then `ready` or `error`, one JSON object a line), and serves until it is killed,
saying every second that it is `alive`. SIGUSR1 asks it to end unless it is generating; it answers `retiring` or `busy`.
It holds nothing that would have to be saved.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from lmsp_site import logs
from models_app.engines import wire
from models_app.engines.base import EngineAddress, LoadError, ModelSpec
from models_app.engines.registry import load_engine
from models_app.engines.server import MAX_OUTBOX, EngineServer, Pulse

_PROGRESS_INTERVAL = 0.05
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the process; exit status 1 if the model cannot be loaded."""
    arguments = _parse_arguments()
    logs.configure()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; whoever started us decides
    if arguments.parent is not None and not _die_with(arguments.parent):
        sys.exit("the parent is gone")
    report = _reporter(arguments.report_fd)
    try:
        spec = ModelSpec.from_dict(json.loads(arguments.spec))
        engine = load_engine(spec, _progress_reporter(report))
    except LoadError as error:
        report({"type": "error", "code": error.code, "message": str(error)})
        sys.exit(1)
    listener = wire.listen(arguments.socket)
    address = EngineAddress(arguments.socket, engine.fingerprint, engine.slots, engine.context_length, os.getpid())
    server = EngineServer(
        engine,
        listener,
        flush_interval=spec.flush_interval,
        on_pulse=_pulse_reporter(report),
        on_retire=_retire_reporter(report),
        max_outbox=arguments.max_outbox,
    )
    signal.signal(signal.SIGUSR1, lambda _signal, _frame: server.retire())
    report({"type": "ready", **address.to_dict()})
    os.set_blocking(arguments.report_fd, False)
    server.run()


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="engine", description="Load one model and serve it on a Unix socket.")
    parser.add_argument("--socket", required=True, help="where to listen")
    parser.add_argument("--spec", required=True, help="the model specification, as JSON")
    parser.add_argument("--report-fd", type=int, default=1, help="where to say how loading goes (stdout)")
    parser.add_argument("--parent", type=int, help="end when this process, our parent, ends")
    parser.add_argument("--max-outbox", type=int, default=MAX_OUTBOX, help="bytes a slow reader may owe")
    return parser.parse_args()


def _die_with(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends; False if that has happened already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _reporter(descriptor: int) -> Callable[[dict[str, object]], None]:
    def report(message: dict[str, object]) -> None:
        os.write(descriptor, wire.encode(message))

    return report


def _pulse_reporter(report: Callable[[dict[str, object]], None]) -> Callable[[Pulse], None]:
    def on_pulse(pulse: Pulse) -> None:
        with suppress(BlockingIOError):  # nobody has read for half an hour
            report({"type": "alive", **asdict(pulse)})

    return on_pulse


def _retire_reporter(report: Callable[[dict[str, object]], None]) -> Callable[[bool], None]:
    def on_retire(retires: bool) -> None:
        with suppress(BlockingIOError):
            report({"type": "retiring" if retires else "busy"})

    return on_retire


def _progress_reporter(report: Callable[[dict[str, object]], None]) -> Callable[[float], None]:
    next_at = time.monotonic()

    def on_progress(progress: float) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + _PROGRESS_INTERVAL
            report({"type": "loading", "progress": progress})

    return on_progress


if __name__ == "__main__":
    main()
