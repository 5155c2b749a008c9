"""The picture: recall against throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from harness.report import front

if TYPE_CHECKING:
    from pathlib import Path

# Below this nobody would run a peer, and the lines would squeeze the rest.
_RECALL_SHOWN = 0.7


def draw(run: dict[str, Any], path: Path) -> None:
    """Write a PNG: a line per peer for static, a point per peer for mixed."""
    figure, axes = plt.subplots(figsize=(9, 6))
    for row in run["peers"]:
        if "error" in row:
            continue
        if run["workload"] == "static":
            points = [p for p in front(row["points"], "qps") if p["recall"] >= _RECALL_SHOWN]
            speeds = [point["qps"] for point in points]
        else:
            points, speeds = [row], [row["ops-per-s"]]
        is_ours = row["peer"].startswith("vstream")
        axes.plot(
            [point["recall"] for point in points],
            speeds,
            marker="o",
            markersize=8 if is_ours else 5,
            linewidth=2.5 if is_ours else 1.2,
            linestyle="-" if len(points) > 1 else "",
            label=row["peer"],
        )
    axes.set_yscale("log")
    axes.set_xlabel(f"recall@{run['k']}")
    unit = "queries per second" if run["workload"] == "static" else "operations per second"
    axes.set_ylabel(f"{unit}, one thread")
    axes.set_title(f"{run['data']}, {run['workload']}, {run['rows']:,} rows")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
