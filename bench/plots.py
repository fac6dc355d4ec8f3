"""The figures of how costs grow: `python -m bench.plots JSON_FILE DIRECTORY`, with what `python -m bench` has printed.

One figure for each kind of size, with a plot for each unit, both axes logarithmic.
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.growth.series import exponent

_WIDTH, _HEIGHT = 8.0, 2.0
# Text stays text, and the same input makes the same file.
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9}
_MARKERS = "os^vDPX"


def draw(outcome: dict[str, Any], directory: Path) -> list[Path]:
    """Draw everything that is said of growth and return the files, ``growth_….svg``.

    Args:
        outcome: the bench's JSON object.
        directory: is made if need be.

    Raises:
        ValueError: nothing is said of growth.
    """
    figures: defaultdict[str, defaultdict[str, list[dict[str, Any]]]]
    figures = defaultdict(lambda: defaultdict(list))
    for found in outcome["findings"].values():
        if series := found.get("growth"):
            figures[series["over"]][series["unit"]].append(series)
    if not figures:
        raise ValueError(
            'there is nothing of growth in it: measure with `make bench ARGS="--only growth --output FILE"`'
        )
    directory.mkdir(parents=True, exist_ok=True)
    return [_figure(over, units, directory) for over, units in figures.items()]


def _figure(over: str, units: dict[str, list[dict[str, Any]]], directory: Path) -> Path:
    path = directory / f"growth_{over.replace(' ', '_')}.svg"
    with rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(units)), layout="constrained", facecolor="white")
        plots = figure.subplots(len(units), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (unit, lines) in zip(plots, units.items(), strict=True):
            for marker, series in zip(_MARKERS, lines, strict=False):
                sizes, costs = zip(*series["points"], strict=True)
                label = f"{series['title']} ({exponent(series['points']):+.2f})"
                axes.plot(sizes, costs, marker=marker, markersize=4, linewidth=1, label=label)
            axes.set_xscale("log")
            axes.set_yscale("log")
            # Whole powers of ten at the ends, so that a slope can be seen for what it is.
            axes.set_ylim(*_decades([cost for series in lines for _, cost in series["points"]]))
            axes.set_ylabel(unit)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axes.minorticks_off()
            axes.grid(visible=True, which="major", color="0.9", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, title="(exponent)", alignment="left")
        plots[-1].set_xlabel(over)
        plots[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        # Without the date it is the same file tomorrow.
        figure.savefig(path, metadata={"Date": None})
    return path


def _decades(costs: list[float]) -> tuple[float, float]:
    """Return the powers of ten between which all costs lie."""
    least = 10.0 ** math.floor(math.log10(min(costs)))
    return least, max(10.0 ** math.ceil(math.log10(max(costs))), 10 * least)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.plots", description="Draw how costs grow.")
    parser.add_argument("outcome", type=Path, help="the JSON that the bench has written")
    parser.add_argument("directory", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    try:
        files = draw(json.loads(arguments.outcome.read_text()), arguments.directory)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(*files, sep="\n")
