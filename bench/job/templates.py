"""Runs a drifting stream and a hot spot with and without dynamic templates.

Reads the lines of JSON that `vstream run --lines` writes and prints a table: how evenly rows and
work lie over the partitions, the worst recall of any 2.5 seconds, fan-out and latency.
"""

import argparse
import json
import subprocess
from pathlib import Path

WINDOW = 5
"""Lines over which loads and recall are averaged: 2.5 s, into which some tens of audits fall."""

AFTER = 30
"""Seconds of the stream after which loads are to be even."""


def run(vstream: Path, job: str, data: str, policy: str, out: Path) -> list[dict]:
    """Run one job to its end and return its lines."""
    lines = out / f"{data}-{policy}.jsonl"
    command = [
        str(vstream),
        "run",
        job,
        f"--set=vectors.path=data/drift/{data}.fbin",
        f"--set=rebalance.policy={policy}",
        f"--set=checkpoint.path={out}/checkpoints",
        f"--lines={lines}",
    ]
    return lines_of(command, lines)


def lines_of(command: list[str], lines: Path) -> list[dict]:
    """Run a job that writes its lines to a file, and return them."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in lines.read_text().splitlines()]


def show(columns: dict[str, str], row: dict[str, float], *, head: bool) -> None:
    """Print a line of a table, below the names of its columns if it is the first."""
    if head:
        print(f"| {' | '.join([*columns, *row])} |")
        print("|" + "---|" * (len(columns) + len(row)))
    cells = [f"{value:.3f}".rstrip("0").rstrip(".") for value in row.values()]
    print(f"| {' | '.join([*columns.values(), *cells])} |", flush=True)


def uneven(values: list[float]) -> float:
    """Largest over mean."""
    return max(values) * len(values) / max(sum(values), 1e-9)


def load(window: list[dict]) -> list[float]:
    """Load of each partition: its shares of the rows and of the work, as the plan weighs them."""
    rows = window[-1]["rows_per_partition"]
    work = [sum(line["work_us_per_partition"][p] for line in window) for p in range(len(rows))]
    return [r / max(sum(rows), 1) + w / max(sum(work), 1) for r, w in zip(rows, work, strict=True)]


def summary(lines: list[dict]) -> dict[str, float]:
    """Return what a run was like while the stream lasted."""
    stream = [line for line in lines if line["type"] == "progress" and line["phase"] == "stream"]
    began = stream[0]["seconds"]
    late = [line for line in stream if line["seconds"] - began >= AFTER]
    recalls = []
    for start in range(0, len(stream) - WINDOW + 1, WINDOW):
        window = stream[start : start + WINDOW]
        before = stream[start - 1]["audits"] if start else 0
        counts = [line["audits"] for line in window]
        audits = [b - a for a, b in zip([before, *counts], counts, strict=False)]
        found = sum(
            n * line["recall_recent"]
            for n, line in zip(audits, window, strict=True)
            if line["recall_recent"] is not None
        )
        if sum(audits) > 0:
            recalls.append(found / sum(audits))
    loads = [load(stream[i : i + WINDOW]) for i in range(0, len(stream) - WINDOW + 1, WINDOW)]
    late_loads = [load(late[i : i + WINDOW]) for i in range(0, len(late) - WINDOW + 1, WINDOW)]
    result = lines[-1]
    return {
        "load max/mean, worst": max(map(uneven, loads)),
        f"after {AFTER} s": max(map(uneven, late_loads)),
        "mean after": sum(map(uneven, late_loads)) / len(late_loads),
        "rows max/mean, at the end": uneven(result["rows_per_partition"]),
        "recall, worst 2.5 s": min(recalls),
        "recall": result["recall_at_10"],
        "fan-out": result["fan_out"],
        "p50 ms": result["query_p50_ms"],
        "p99 ms": result["query_p99_ms"],
        "templates": stream[-1]["epoch"],
        "rows moved": stream[-1]["rows_adopted"],
    }


def main() -> None:
    """Run what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vstream", type=Path, default=Path("dist/bin/vstream"))
    parser.add_argument("--job", default="examples/drift.yaml")
    parser.add_argument("--out", type=Path, default=Path("run/templates"))
    parser.add_argument("--data", nargs="+", default=["drift", "hot"])
    parser.add_argument("--policies", nargs="+", default=["none", "cells", "boundary"])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    head = True
    for data in arguments.data:
        for policy in arguments.policies:
            lines = run(arguments.vstream, arguments.job, data, policy, arguments.out)
            show({"stream": data, "policy": policy}, summary(lines), head=head)
            head = False


if __name__ == "__main__":
    main()
