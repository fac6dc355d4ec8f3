"""``python3 -m lmsp_site.bootstrap run`` starts the service, ``... prepare`` makes ready for tests and checks."""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lmsp_site import address
from lmsp_site.bootstrap import demo_model, engine, environment, machine, problem, step
from lmsp_site.bootstrap.environment import Environment
from lmsp_site.bootstrap.problem import AGAIN, SetupError

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache"
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    for signum in step.INTERRUPTS:
        signal.signal(signum, interrupt)
    os.chdir(ROOT)
    try:
        match arguments:
            case ["run"]:
                run()
            case ["prepare"]:
                prepare([environment.DEV_REQUIREMENTS])
            case _:
                print("usage: python3 -m lmsp_site.bootstrap {run|prepare}", file=sys.stderr)
                return 2
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(problem.of_system(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped. Nothing is broken: {AGAIN.removeprefix('then ')} to go on.", file=sys.stderr)
        return INTERRUPTED
    return 0


def run() -> None:
    """Become the running service."""
    # Before the long installation, not after it.
    try:
        address.listen(*wanted_address()).close()
    except address.AddressUnavailableError as error:
        raise SetupError(str(error)) from None
    installed = prepare([])
    manage = [str(installed.python), "manage.py"]
    if status := step.run_visibly([*manage, "quickstart"]):
        raise SetupError(f"The service could not be set up: manage.py quickstart ended with exit status {status}.")
    os.execv(manage[0], [*manage, "serve"])  # noqa: S606


def prepare(extra: Sequence[str]) -> Environment:
    """Install what is missing: the requirements, these extra ones, and the demo model."""
    installed = Environment(ROOT, CACHE)
    names = [environment.GPU_REQUIREMENTS if machine.has_gpu() else environment.CPU_REQUIREMENTS, *extra]
    with _only_setup():
        if not installed.has(names):
            installed.install(names)
        if not demo_model.is_present(CACHE):
            demo_model.fetch(CACHE, installed)
        if not engine.is_tried(installed):
            engine.try_out(installed, demo_model.path(CACHE))
    return installed


def wanted_address() -> tuple[str, int]:
    """Return where the service is to listen; what it reads once it runs says the same.

    Raises:
        SetupError: LMSP_PORT is no port.
    """
    text = os.environ.get("LMSP_PORT") or str(address.DEFAULT_PORT)
    if not (text.isdecimal() and 1 <= int(text) <= 65535):
        raise SetupError(f"LMSP_PORT must be a number from 1 to 65535, not {text!r}.")
    return os.environ.get("LMSP_HOST") or address.DEFAULT_HOST, int(text)


@contextmanager
def _only_setup() -> Iterator[None]:
    """Wait until no other command sets up this checkout, and keep others waiting."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step.say("Waiting for another command that sets up this directory ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def interrupt(signum: int, _frame: object) -> None:
    """End what this process is doing, and let nothing interrupt that."""
    # A second signal would leave half of it running.
    for other in step.INTERRUPTS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt(signum)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
