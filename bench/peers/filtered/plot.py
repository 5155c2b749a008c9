"""The picture: queries per second at equal recall, by class of filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from filtered.report import at_target

if TYPE_CHECKING:
    from pathlib import Path

_DPI = 90


def draw(run: dict[str, Any], path: Path) -> None:
    """Write a PNG with a line per index; a class where it misses the recall is a gap."""
    measured = [row for row in run["peers"] if "error" not in row]
    figure, axes = plt.subplots(figsize=(11, 6))
    for at, row in enumerate(measured):
        speeds = [at_target(one["points"], run["target"]).value for one in row["classes"]]
        is_ours = row["peer"].startswith("vstream")
        axes.plot(
            [float("nan") if speed is None else speed for speed in speeds],
            color=f"C{at % 10}",
            marker="*" if is_ours else "os^vD"[at % 5],
            markersize=10 if is_ours else 6,
            linewidth=2.5 if is_ours else 0.8,
            linestyle="-" if is_ours else ":",
            label=row["peer"],
        )
    names = [
        f"{one['class']}\n{100 * one['selectivity']:.3g} %"
        for one in (measured[0]["classes"] if measured else [])
    ]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel(f"queries per second at recall {run['target']:g}, one thread")
    axes.set_title(f"{run['data']}, filters, {run['rows']:,} rows, commit {run['commit']}")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize=8, ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
