"""Draws the pictures of results: `python plots.py OUT RESULTS.json...`.

That is recall against throughput, and of filters the throughput at equal recall.

The picture of `results/glove-mixed-300000-0.95/results.json` is `OUT/glove-mixed-300000-0.95.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from filtered import plot as filters
from harness import plot


def main_of(arguments: list[str]) -> None:
    """Write one PNG per results file."""
    out, *results = (Path(name) for name in arguments)
    if not results:
        sys.exit("There are no results to draw: run `make bench-peers` first.")
    out.mkdir(parents=True, exist_ok=True)
    for path in results:
        picture = out / f"{path.parent.name}.png"
        run = json.loads(path.read_text())
        (filters if run["workload"] == "filters" else plot).draw(run, picture)
        print(f"{picture}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main_of(sys.argv[1:])
