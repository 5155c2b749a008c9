"""The pictures: recall against throughput."""

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
_DPI = 90


def draw(run: dict[str, Any], path: Path) -> None:
    """Write a PNG with a line per peer; what is missing from the results is missing here."""
    is_static = run["workload"] == "static"
    speed = "qps" if is_static else "ops-per-s"
    figure, axes = plt.subplots(figsize=(9, 6))
    for at, row in enumerate(row for row in run["peers"] if "error" not in row):
        points = [point for point in row["points"] if point["recall"] >= _RECALL_SHOWN]
        shown = front(points, speed) if is_static else sorted(points, key=lambda p: p["recall"])
        is_ours = row["peer"].startswith("vstream")
        capped = f" ({row['rows']:,} rows)" if row["rows"] < run["rows"] else ""
        axes.plot(
            [point["recall"] for point in shown],
            [point[speed] for point in shown],
            color=f"C{at % 10}",
            marker="*" if is_ours else "os^vD"[at // 3 % 5],
            markersize=10 if is_ours else 5,
            linewidth=2.5 if is_ours else 1.2,
            linestyle="--" if row["is-database"] else "-",
            label=row["peer"] + capped,
        )
    axes.set_yscale("log")
    axes.set_xlabel(f"recall@{run['k']}")
    unit = (
        "queries per second"
        if is_static
        else "operations per second, 1 query : 3 inserts : 1 delete"
    )
    axes.set_ylabel(f"{unit}, one thread")
    axes.set_title(
        f"{run['data']}, {run['workload']}, {run['rows']:,} rows, commit {run['commit']}"
    )
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize=8, ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
