"""The virtual environment ``.venv`` and what is installed in it."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from lmsp_site.bootstrap import machine, problem, step
from lmsp_site.bootstrap.problem import AGAIN, SetupError

CPU_REQUIREMENTS = "requirements-cpu.txt"
GPU_REQUIREMENTS = "requirements.txt"
DEV_REQUIREMENTS = "requirements-dev.txt"

_BUILD = "build"
_STAGES = (
    (r"Building wheel for llama-cpp-python", "compiling llama.cpp, about 5 minutes on two cores, once per machine"),
    (r"Building wheel for (\S+)", r"compiling \1"),
    (r"Installing collected packages", "unpacking"),
    (r"Collecting ([\w.-]+)", r"looking up \1"),
    (r"Downloading ([\w.]+)", r"downloading \1"),
)


class Environment:
    """The virtual environment of one checkout."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.log = cache / "setup.log"
        self.directory = root / ".venv"
        self.python = self.directory / "bin" / "python"
        # There while the environment is being written: what an interruption leaves of it cannot be trusted.
        self.unfinished = cache / "environment-unfinished"
        self.stamps = self.directory / "lmsp-installed.json"

    def has(self, names: Iterable[str]) -> bool:
        """Tell whether these requirement files are installed as they are now."""
        installed = self.recorded()
        return self.python.exists() and all(installed.get(name) == self.digest(name) for name in names)

    def install(self, names: Sequence[str]) -> None:
        """Make the environment, unless there is a sound one, and install these requirement files.

        Raises:
            SetupError: it cannot be done.
        """
        self.log.unlink(missing_ok=True)
        sound = self.is_sound()
        if not (sound and any(self.directory.glob("lib/python*/site-packages/llama_cpp"))):
            machine.require_compiler()
        machine.require_space(self.root, gpu=GPU_REQUIREMENTS in names)
        self.unfinished.touch()
        if not sound:
            self._make()
        self.pip(f"Installing {' and '.join(names)}", "install", *(word for name in names for word in ("-r", name)))
        self.unfinished.unlink()
        self.record(self.done(names))

    def pip(self, title: str, *arguments: str | Path) -> None:
        """Run pip in the environment.

        Raises:
            SetupError: it failed.
        """
        options = ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
        command = [self.python, "-m", "pip", *arguments, *options]
        try:
            step.run(title, command, self.log, stage=stage_of, env=_pip_environment())
        except step.StepError as failure:
            raise problem.of_pip(failure.output, self.log) from None

    def done(self, names: Iterable[str]) -> dict[str, str]:
        """Return what is to be recorded when these requirement files are installed."""
        return {_BUILD: machine.digest(_build())} | {name: self.digest(name) for name in names}

    def recorded(self) -> dict[str, str]:
        """Return what was done in this environment: a name, and a digest of what it depended on."""
        if self.unfinished.exists():
            return {}
        try:
            return dict(json.loads(self.stamps.read_text()))
        except (OSError, ValueError):
            return {}

    def record(self, done: dict[str, str]) -> None:
        """Note what was done, so that it is not done again."""
        draft = self.stamps.with_suffix(".draft")
        draft.write_text(json.dumps(self.recorded() | done, indent=1))
        draft.replace(self.stamps)

    def _make(self) -> None:
        # Debian ships these two modules in a package of their own.
        if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
            raise SetupError(f"This Python cannot make an environment: apt install python3-venv, {AGAIN}.")
        try:
            step.run("Making .venv", [sys.executable, "-m", "venv", "--clear", self.directory], self.log)
        except step.StepError as failure:
            raise problem.of_pip(failure.output, self.log) from None

    def is_sound(self) -> bool:
        """Tell whether there is a whole environment of this Python, in which packages can be installed."""
        if self.unfinished.exists() or not self.python.exists():
            return False
        look = [str(self.python), "-c", "import sys, pip; print(*sys.version_info[:2])"]
        answer = subprocess.run(look, capture_output=True, text=True, check=False)
        # What is installed stays as it was compiled.
        if self.recorded().get(_BUILD) != machine.digest(_build()):
            return False
        return answer.returncode == 0 and answer.stdout.split() == [str(part) for part in sys.version_info[:2]]

    def digest(self, name: str) -> str:
        """Return a digest of all that decides what a requirement file installs."""
        text = (self.root / name).read_text()
        for included in re.findall(r"^-r (\S+)", text, re.MULTILINE):
            text += self.digest(included)
        return machine.digest(*sys.version_info[:2], _build(), text)


def stage_of(output: str) -> str | None:
    """Return what pip is at, judged by the last of its lines that tells."""
    for line in reversed(output.splitlines()):
        for pattern, stage in _STAGES:
            if found := re.search(pattern, line):
                return found.expand(stage)
    return None


def _build() -> str:
    """Return how llama.cpp is compiled, where that is not as its authors have it."""
    return " ".join(filter(None, (os.environ.get("CMAKE_ARGS", ""), machine.compiler_flags(machine.processor()))))


def _pip_environment() -> dict[str, str]:
    environment = dict(os.environ)
    if build := _build():
        # pip's cache of built wheels does not look at how they were built: a special build gets a cache of its own.
        home = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        environment.setdefault("PIP_CACHE_DIR", str(home / f"lmsp-pip-{machine.digest(build)[:12]}"))
    if flags := machine.compiler_flags(machine.processor()):
        for name in ("CFLAGS", "CXXFLAGS"):
            environment[name] = f"{environment.get(name, '')} {flags}".strip()
    return environment
