"""Draws recall per step of runbooks, and makes a table of them.

`python draw.py OUT TABLE.md RESULT.json...`: the results are those of `runbook run`, JSON lines.
The picture of `drift.json` is `OUT/runbook-drift.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

Step = dict[str, Any]

# A step at which a fresh index finds more than this has missed the goal.
GAP_MAX = 0.01
_TARGET = 0.95
_DPI = 90
_HEAD = (
    "runbook",
    "searches",
    "recall@10, lowest / mean",
    "guard's error, mean",
    "gap to fresh, same probes: least / mean / most",
    f"steps with a gap > {GAP_MAX:g}",
    "gap to fresh, same rows: mean / most",
    "rows gone, memory freed",
)


def main_of(arguments: list[str]) -> None:
    """Write a PNG per result, and the table."""
    out, table, *results = (Path(name) for name in arguments)
    if not results:
        sys.exit("There are no results to draw: run `make bench-runbooks`.")
    out.mkdir(parents=True, exist_ok=True)
    lines = [_line(list(_HEAD)), "|---" * len(_HEAD) + "|"]
    for path in results:
        every = [json.loads(line) for line in path.read_text().splitlines()]
        steps = [entry for entry in every if entry["type"] == "search"]
        picture = out / f"runbook-{path.stem}.png"
        draw(path.stem, steps, picture)
        lines.append(row(path.stem, steps, every[-1]))
        print(f"{picture}: {picture.stat().st_size:,} bytes")
    table.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def gaps(steps: list[Step], ours: str) -> list[float]:
    """Return the recall of a fresh index less ours, at every step where one was built."""
    both = [step["equal_effort"] for step in steps if step["equal_effort"]]
    return [pair["fresh_recall"] - pair[ours] for pair in both]


def row(name: str, steps: list[Step], summary: dict[str, Any]) -> str:
    """Return the line of one runbook."""
    cells = [name, str(len(steps)), f"{summary['recall_min']:.3f} / {summary['recall_mean']:.3f}"]
    error = summary["guard_error_mean"]
    cells.append("-" if error is None else f"{error:+.3f}")
    same_probes, same_rows = gaps(steps, "live_recall"), gaps(steps, "same_rows_recall")
    if same_probes:
        mean = sum(same_probes) / len(same_probes)
        cells.append(f"{min(same_probes):+.3f} / {mean:+.3f} / {max(same_probes):+.3f}")
        cells.append(str(sum(gap > GAP_MAX for gap in same_probes)))
        mean = sum(same_rows) / len(same_rows)
        cells.append(f"{mean:+.3f} / {max(same_rows):+.3f}")
    else:
        cells += ["-", "-", "-"]
    peak, fewest = summary["memory_at_peak"], summary["memory_at_fewest_after_peak"]
    gone = [1 - fewest[name] / max(peak[name], 1) for name in ("live", "memory_bytes")]
    cells.append(f"{gone[0]:.1%}, {gone[1]:.1%}")
    return _line(cells)


def draw(name: str, steps: list[Step], path: Path) -> None:
    """Write the picture: recall over the steps, the live rows as an area behind it."""
    figure, rows = plt.subplots(figsize=(9, 4))
    numbers = [step["step"] for step in steps]
    rows.fill_between(numbers, [step["live"] for step in steps], color="#e4eaf0", label="live rows")
    rows.set_ylim(bottom=0)
    rows.set_ylabel("live rows")
    axes = rows.twinx()
    # A twin puts the first axis to the left.
    rows.yaxis.tick_right()
    rows.yaxis.set_label_position("right")
    axes.yaxis.tick_left()
    axes.yaxis.set_label_position("left")
    axes.plot(numbers, [step["recall"] for step in steps], label="ours, steered", color="C0")
    compared = [step for step in steps if step["equal_effort"]]
    for key, label, colour in (
        ("live_recall", "ours, same probes as fresh", "C2"),
        ("fresh_recall", "freshly built", "C1"),
    ):
        if compared:
            axes.plot(
                [step["step"] for step in compared],
                [step["equal_effort"][key] for step in compared],
                label=label,
                color=colour,
                linewidth=1,
            )
    axes.axhline(_TARGET, color="grey", linestyle="--", linewidth=0.8)
    axes.set_ylabel("recall@10")
    rows.set_xlabel("step of the runbook")
    axes.set_title(name)
    axes.legend(loc="lower right", fontsize=8, ncols=3)
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main_of(sys.argv[1:])
