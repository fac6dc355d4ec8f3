"""How much memory this machine, or the container that this process runs in, can still give."""

from pathlib import Path

from models_app.engines import control_groups
from models_app.engines.control_groups import lines

_UNLIMITED = 1 << 60
"""cgroups of version 1 write a number near 2^63 where there is no limit."""

_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"),
    2: ("memory.max", "memory.current", "inactive_file", "active_file"),
}
"""Limit and usage of a group by its version, and what of the usage is cached files."""


def available_bytes(root: Path = Path("/")) -> int:
    """The smallest of what the kernel calls available and what each control group above this process leaves.

    Files that are cached count as available: they can be read again.
    """
    return max(0, min(_of_machine(root), _of_groups(root)))


def _of_machine(root: Path) -> int:
    for line in lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return _UNLIMITED


def _of_groups(root: Path) -> int:
    groups = control_groups.above("memory", root)
    return min((_of_group(directory, *_FILES[version]) for version, directory in groups), default=_UNLIMITED)


def _of_group(directory: Path, limit_name: str, usage_name: str, *cached_names: str) -> int:
    limit, usage = _number(directory / limit_name), _number(directory / usage_name)
    if limit is None or usage is None or limit >= _UNLIMITED:
        return _UNLIMITED
    statistics = dict(line.split(" ", 1) for line in lines(directory / "memory.stat") if " " in line)
    return limit - usage + sum(int(statistics.get(name, 0)) for name in cached_names)


def _number(path: Path) -> int | None:
    first = next(iter(lines(path)), "")
    return int(first) if first.isdigit() else None
