"""Draws latency against rate: `python plot.py PICTURE.png RESULT.json...`.

A point is a step of `run.py` that was held: its median below, its p99 above.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def main() -> None:
    """Write one picture of all results."""
    picture, *results = (Path(name) for name in sys.argv[1:])
    if not results:
        sys.exit("There are no results to draw: run `make bench-job` first.")
    figure, axes = plt.subplots(figsize=(7, 4.2))
    all_steps = {path: json.loads(path.read_text())["steps"] for path in results}
    held = {path: [one for one in steps if one["sustained"]] for path, steps in all_steps.items()}
    if not any(held.values()):
        print("No rate was held: there is nothing to draw.")
        return
    for path, steps in held.items():
        rates = [step["records_per_s"] for step in steps]
        median, p99 = ([step[key] for step in steps] for key in ("p50_ms", "p99_ms"))
        (line,) = axes.plot(rates, p99, marker="o", label=path.parent.name.removeprefix("beside-"))
        axes.plot(rates, median, marker=".", linestyle="--", color=line.get_color())
    axes.set(xscale="log", yscale="log", xlabel="records/s, held", ylabel="ms: p50 dashed, p99")
    axes.set_title("From Kafka to Kafka, 1 query : 3 upserts : 1 delete")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
