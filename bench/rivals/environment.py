"""Where the rivals live: an environment of their own, which sees the service's build of llama-cpp-python."""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from bench.service import REPOSITORY, ServiceError

_PLACE = REPOSITORY / ".cache" / "bench" / "rivals"
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def python() -> Path:
    """Return the interpreter of the environment, which is made when it is first asked for, or has changed.

    Raises:
        ServiceError: it could not be made.
    """
    interpreter = _PLACE / "bin" / "python"
    stamp = _PLACE / "installed"
    wanted = hashlib.sha256(sys.version.encode() + _REQUIREMENTS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(_PLACE, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(_PLACE))
        _run(str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(_REQUIREMENTS))
        (site_packages,) = _PLACE.glob("lib/python*/site-packages")
        # Looked at last: of what both have, the rivals' own is taken.
        (site_packages / "service.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        stamp.write_text(wanted)
    return interpreter


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceError(f"{' '.join(command)} failed: {(done.stdout + done.stderr).strip()[-3000:]}")
