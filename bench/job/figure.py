"""Draws the picture of the README: `python bench/job/figure.py` from the repository's root.

Its points are the rows of `bench/job/figures/beside.csv`, which are those of a table in
`docs/benchmarks.md`: each system's rates that were held, with the median and the p99 of the time
from a query in Kafka to its answer in Kafka.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

TABLE = Path("bench/job/figures/beside.csv")
PICTURE = Path("docs/plots/beside-a-database.png")
COLOURS = {"VStream": "#1b7f3b", "Chroma": "#2b6cb0", "Milvus Lite": "#c05621"}


def main() -> None:
    """Write the picture."""
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    points: dict[str, list[tuple[float, float, float]]] = {}
    for row in csv.DictReader(lines):
        numbers = (float(row[key]) for key in ("records_per_s", "p50_ms", "p99_ms"))
        points.setdefault(row["system"], []).append(tuple(numbers))
    figure, axes = plt.subplots(figsize=(8, 3.8))
    for system, rows in points.items():
        rates, medians, tails = zip(*rows, strict=True)
        colour = COLOURS[system]
        axes.plot(rates, tails, color=colour, marker="o", linewidth=2)
        axes.plot(rates, medians, color=colour, marker="o", linewidth=1, linestyle=":", ms=3)
        axes.fill_between(rates, medians, tails, color=colour, alpha=0.12, linewidth=0)
        is_last = system == "VStream"
        axes.annotate(
            f"{system}: {rates[-1]:,.0f}/s",
            (rates[-1], max(tails)),
            xytext=(-24 if is_last else 8, 0),
            textcoords="offset points",
            ha="right" if is_last else "left",
            va="center",
            color=colour,
            weight="bold",
        )
    axes.set(xscale="log", yscale="log", xlim=(35, 20_000), ylim=(8, 5_000))
    axes.set(xlabel="records per second that the job held", ylabel="query to answer, ms")
    axes.set_title("Kafka to Kafka on two cores: p99 (line) and median (dotted)", loc="left")
    axes.set_xticks([50, 100, 500, 1_000, 5_000, 10_000])
    axes.set_xticklabels(["50", "100", "500", "1,000", "5,000", "10,000"])
    axes.set_yticks([10, 100, 1_000])
    axes.set_yticklabels(["10", "100", "1,000"])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
