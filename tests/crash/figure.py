"""The picture of a record: memory, handles and files over time. `python -m tests.crash.figure DIRECTORY FILE`."""

import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from tests.crash.growth import Points, summed
from tests.crash.record import Record

_ROLES = ("engine", "worker", "web", "cluster", "supervisor", "host")
_MEGABYTE = 1_000_000
_MOST_POINTS = 180
# Text stays text, and the same record makes the same file.
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "soak", "font.size": 9, "axes.spines.top": False}


def draw(record: Record, path: Path) -> None:
    """Write the picture to `path`, whose ending decides its format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(_STYLE):
        figure = Figure(figsize=(8, 7), layout="constrained")
        memory, handles, files = figure.subplots(3, 1, sharex=True)
        for role in _ROLES:
            _line(memory, summed(record, role, "pss"), role, _MEGABYTE)
            _line(handles, summed(record, role, "handles"), role)
        _line(files, [(size.seconds, size.database) for size in record.sizes], "database", _MEGABYTE)
        _line(files, [(size.seconds, size.log) for size in record.sizes], "write-ahead log", _MEGABYTE)
        for axes, title in (
            (memory, "Memory, MB (PSS; all processes of a role; ticks: kills)"),
            (handles, "Open handles"),
            (files, "Files, MB"),
        ):
            axes.set_title(title, loc="left", fontsize=9)
            axes.set_ylim(bottom=0)
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        kills = [kill.seconds / 60 for kill in record.kills]
        memory.vlines(kills, 0, 0.03, transform=memory.get_xaxis_transform(), colors="black", linewidths=0.6)
        files.set_xlabel("minutes")
        # Without the date it is the same file tomorrow.
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _line(axes: Any, points: Points, label: str, unit: float = 1) -> None:
    """Draw the medians of so many stretches that the file stays small."""
    if not points:
        return
    width = max(points[-1][0], 1.0) / _MOST_POINTS
    stretches: defaultdict[int, list[float]] = defaultdict(list)
    for seconds, value in points:
        stretches[int(seconds / width)].append(value / unit)
    minutes = [(stretch + 0.5) * width / 60 for stretch in stretches]
    axes.plot(minutes, [statistics.median(values) for values in stretches.values()], label=label, linewidth=1)


if __name__ == "__main__":
    draw(Record.load(Path(sys.argv[1])), Path(sys.argv[2]))
