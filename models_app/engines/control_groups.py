"""The control groups that a process is in: what limits a container, or a unit of systemd."""

from collections.abc import Iterator
from pathlib import Path


def above(controller: str, root: Path = Path("/")) -> Iterator[tuple[int, Path]]:
    """Yield the groups of this process in which a controller (``memory``, ``cpu``) may have a limit.

    Each comes once, as the version of its hierarchy (1 or 2) and its directory, whether or not that is there.
    """
    for line in lines(root / "proc/self/cgroup"):
        _number, controllers, path = line.split(":", 2)
        if not controllers:
            version, base = 2, root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, base = 1, root / "sys/fs/cgroup" / controller
        else:
            continue
        # In a container the path may be the one outside of it; the mounted root is its own group then.
        group = Path(path.lstrip("/"))
        yield from ((version, directory) for directory in {base / group, *(base / each for each in group.parents)})


def lines(path: Path) -> list[str]:
    """Return the lines of a file of the kernel; none where it is not there."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
