"""Which processes work on a data directory, as /proc shows them (Linux)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmsp_site.configuration import REPOSITORY

# By an argument of its command line; in the order in which they are started.
_ROLES = {
    "serve": "supervisor",
    "models_app.engines.host": "engine_host",
    "lmsp_site.daphne_server": "web",
    "run_workers": "workers",
    "models_app.engines.process": "engines",
}
_VARIABLE = b"LMSP_DATA_DIR="
ROLES = tuple(_ROLES.values())


@dataclass(frozen=True)
class Process:
    """One process; `memory_bytes` is its share of what it has in memory."""

    pid: int
    role: str
    memory_bytes: int


def seen(data_dir: Path) -> list[Process]:
    """Return the processes of a service, however they were started; those of other users cannot be seen."""
    return list(_seen(data_dir))


def _seen(data_dir: Path) -> Iterator[Process]:
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            arguments = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
            role = next((name for argument, name in _ROLES.items() if argument in arguments), None)
            if role and _data_dir_of(directory) == data_dir.resolve():
                yield Process(int(directory.name), role, _memory_of(directory))
        except OSError:
            continue  # It has ended, or is another user's.


def _data_dir_of(directory: Path) -> Path:
    for setting in (directory / "environ").read_bytes().split(b"\0"):
        if setting.startswith(_VARIABLE) and (value := setting.removeprefix(_VARIABLE)):
            return ((directory / "cwd").readlink() / os.fsdecode(value)).resolve()
    return REPOSITORY / "var"


def _memory_of(directory: Path) -> int:
    for line in (directory / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0
