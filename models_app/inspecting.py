"""Asking files what model they are, in a child that they may take down."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models_app.refusals import CannotRegister

_SECONDS = 120
_LONGEST_REASON = 400
# Libraries for matrices would start a thread for each core; headers have none.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def inspect(name: str, paths: Sequence[Path]) -> dict[str, Any]:
    """Return what files say about themselves, as ``formats.description.Description`` has it.

    Args:
        name: what to call them in a refusal.
        paths: one GGUF file, all parts of one, or one folder.

    Raises:
        CannotRegister: they are damaged, hostile, or of a kind that no engine takes.
    """
    try:
        child = subprocess.run(
            [sys.executable, "-m", "models_app.inspect_file", *(str(path.absolute()) for path in paths)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, **_ONE_THREAD},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotRegister(
            f"{name} is not a model that can be loaded. To read its header took more than {_SECONDS} s."
        ) from None
    if child.returncode:
        raise CannotRegister(f"{name} is not a model that can be loaded. {_reason(child.returncode, child.stderr)}")
    metadata: dict[str, Any] = json.loads(child.stdout)
    return metadata


def _reason(status: int, said: str) -> str:
    if status < 0:
        return "The process that read it was ended by it."
    lines = [line for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "It cannot be read."
    return "".join(character for character in last if character.isprintable())[:_LONGEST_REASON]
