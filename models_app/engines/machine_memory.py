"""How much memory this machine, or the container that this process runs in, can still give."""

from pathlib import Path

_UNLIMITED = 1 << 60
"""cgroups of version 1 write a number near 2^63 where there is no limit."""


def available_bytes(root: Path = Path("/")) -> int:
    """The smallest of what the kernel calls available and what each control group above this process leaves.

    Files that are cached count as available: they can be read again.
    """
    return max(0, min(_of_machine(root), _of_groups(root)))


def _of_machine(root: Path) -> int:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return _UNLIMITED


def _of_groups(root: Path) -> int:
    left = _UNLIMITED
    for line in _lines(root / "proc/self/cgroup"):
        _number, controllers, path = line.split(":", 2)
        if not controllers:
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file", "active_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file")
        else:
            continue
        # In a container the path may be the one outside of it; the mounted root is its own group then.
        group = Path(path.lstrip("/"))
        for directory in {base / group, *(base / parent for parent in group.parents), base}:
            left = min(left, _of_group(directory, *names))
    return left


def _of_group(directory: Path, limit_name: str, usage_name: str, *cached_names: str) -> int:
    limit, usage = _number(directory / limit_name), _number(directory / usage_name)
    if limit is None or usage is None or limit >= _UNLIMITED:
        return _UNLIMITED
    statistics = dict(line.split(" ", 1) for line in _lines(directory / "memory.stat") if " " in line)
    return limit - usage + sum(int(statistics.get(name, 0)) for name in cached_names)


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
