"""Draws what the laws of a coordinator did.

`python coordinator_plots.py OUT COORDINATOR.json COURSES.json`: both are from `coordinator`. The
pictures are `OUT/coordinator-laws.png`, latency against cost, and `OUT/coordinator-high.png`, a
minute of High.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

Row = dict[str, Any]

_DPI = 90
_TRAFFIC = ("High", "High, clumped", "on and off", "slow ramps")
_FAMILIES = {
    "static": "C7",
    "Passive": "C3",
    "StreamRAG": "C1",
    "KEDA": "C4",
    "forecast": "C2",
    "lean": "C0",
}


def main_of(arguments: list[str]) -> None:
    """Write both pictures."""
    out, result, courses = (Path(name) for name in arguments)
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(result.read_text())["rows"]
    draw_laws(rows, out / "coordinator-laws.png")
    draw_courses(json.loads(courses.read_text()), out / "coordinator-high.png")
    for name in ("coordinator-laws.png", "coordinator-high.png"):
        print(f"{out / name}: {(out / name).stat().st_size:,} bytes")


def colour(law: str) -> str:
    """Return the colour of a law's family."""
    return next((shown for name, shown in _FAMILIES.items() if law.startswith(name)), "black")


def draw_laws(rows: list[Row], path: Path) -> None:
    """Write the 99th percentile against replicas, a plot per traffic."""
    figure, plots = plt.subplots(2, 2, figsize=(11, 8))
    for axes, traffic in zip(plots.flat, _TRAFFIC, strict=True):
        for row in rows:
            if row["table"] != "continuous" or row["traffic"] != traffic:
                continue
            is_fixed = row["law"].startswith("static")
            axes.plot(
                row["replicas"],
                max(row["p99_s"], 1e-4),
                marker="s" if is_fixed else "o",
                color=colour(row["law"]),
            )
            axes.annotate(
                row["law"],
                (row["replicas"], max(row["p99_s"], 1e-4)),
                fontsize=6,
                xytext=(4, 3),
                textcoords="offset points",
            )
        axes.set_yscale("log")
        axes.set_title(traffic, fontsize=9)
        axes.set_xlabel("replicas, mean", fontsize=8)
        axes.set_ylabel("p99, s", fontsize=8)
        axes.grid(visible=True, linewidth=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def draw_courses(courses: list[Row], path: Path) -> None:
    """Write a minute of each law: replicas, and the longest latency of the queries that arrived."""
    traffics = list(dict.fromkeys(course["traffic"] for course in courses))
    figure, plots = plt.subplots(2, len(traffics), figsize=(11, 6), sharex=True, squeeze=False)
    for column, traffic in enumerate(traffics):
        above, below = plots[0][column], plots[1][column]
        for course in courses:
            if course["traffic"] != traffic:
                continue
            seconds, replicas, _, latency = zip(*course["bins"], strict=True)
            law = course["law"]
            above.step(seconds, replicas, label=law, color=colour(law), linewidth=1, where="post")
            below.plot(seconds, latency, color=colour(law), linewidth=1)
        above.set_title(traffic, fontsize=9)
        below.set_xlabel("s of the minute", fontsize=8)
    plots[0][0].set_ylabel("replicas", fontsize=8)
    plots[1][0].set_ylabel("longest latency, s", fontsize=8)
    plots[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


if __name__ == "__main__":
    main_of(sys.argv[1:])
