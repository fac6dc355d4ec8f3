"""Clients that cannot live in the environment of the tests get a place of their own under ``.cache``."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service import REPOSITORY

HERE = Path(__file__).resolve().parent
_CACHE = REPOSITORY / ".cache" / "clients"
_NPM_FILES = (".npmrc", "package.json", "package-lock.json")


def agents_environment() -> Path:
    """Return the interpreter of an environment with ``openai-agents``: it does not go with the tests' websockets."""
    place = _CACHE / "agents"
    requirements = HERE / "agents_sdk" / "requirements.txt"
    python = place / "bin" / "python"
    if _is_new(place, sys.version.encode(), requirements.read_bytes()):
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        _run(
            str(python),
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "-q",
            "-r",
            str(requirements),
        )
        _note(place, sys.version.encode(), requirements.read_bytes())
    return python


def node_modules() -> Path:
    """Return a folder with the JavaScript tests and, as the lock file has them, their modules.

    A machine without Node passes them over, except where the whole suite must have run.
    """
    if not (shutil.which("node") and shutil.which("npm")):
        assert "CI" not in os.environ, "the tests of the JavaScript client need node and npm"
        pytest.skip("node and npm are not installed: apt install nodejs npm")
    place = npm_modules(HERE / "js", _CACHE / "js")
    for script in (HERE / "js").glob("*.mjs"):
        shutil.copy(script, place)
    return place


def npm_modules(source: Path, place: Path) -> Path:
    """Install what a folder's lock file names into `place`, unless it is there, and return that."""
    what = [(source / name).read_bytes() for name in _NPM_FILES]
    if _is_new(place, *what):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name in _NPM_FILES:
            shutil.copy(source / name, place)
        _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", cwd=place)
        _note(place, *what)
    return place


def _is_new(place: Path, *what: bytes) -> bool:
    stamp = place / "installed"
    return not stamp.exists() or stamp.read_text() != _digest(*what)


def _note(place: Path, *what: bytes) -> None:
    (place / "installed").write_text(_digest(*what))


def _digest(*what: bytes) -> str:
    return hashlib.sha256(b"\0".join(what)).hexdigest()


def _run(*command: str, cwd: Path = REPOSITORY) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
