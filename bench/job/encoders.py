"""Runs one job under each encoder: the same stream, another placement of its vectors.

Prints a table as the VStream paper's Figure 12 has it: recall, fan-out, copies, load and latency.
"""

import argparse
from pathlib import Path

from templates import lines_of, load, show, uneven

ENCODERS = {
    "cells": "{kind: cells}",
    "cells, recall-target 0.995": "{kind: cells, recall-target: 0.995}",
    # As many clusters as partitions, and a query visits those its neighbours may be in.
    "k-means, one cluster per partition": "{kind: cells, cells: PARTITIONS}",
    "lsh + hilbert, 8 families": "{kind: lsh, curve: hilbert, families: 8, hashes: 10}",
    "lsh + z-order, 8 families": "{kind: lsh, curve: zorder, families: 8, hashes: 10}",
    "lsh + hilbert, 2 families": "{kind: lsh, curve: hilbert, families: 2, hashes: 10}",
    "lsh + z-order, 2 families": "{kind: lsh, curve: zorder, families: 2, hashes: 10}",
    "id": "{kind: id}",
}

JOB = """
name: encoders
parallelism: PARTITIONS
collection:
  dimension: 100
  metric: cosine
  encoder: ENCODER
vectors: {kind: generator, path: STREAM, preload: 30000, limit: 120000}
queries: {kind: generator, path: data/glove100/query.fbin, k: 10}
workload:
  ratio: {queries: 1, inserts: 3, deletes: 1}
  rate: RATE
  duration: SECONDS s
results: {kind: blackhole}
audit-share: 0.05
"""


def run(vstream: Path, job: str, out: Path) -> list[dict]:
    """Run one job to its end and return its lines."""
    out.with_suffix(".yaml").write_text(job)
    lines = out.with_suffix(".jsonl")
    command = [str(vstream), "run", str(out.with_suffix(".yaml")), f"--lines={lines}"]
    return lines_of(command, lines)


def summary(lines: list[dict]) -> dict[str, float]:
    """Return what a run was like, of which the loads while the stream lasted."""
    stream = [line for line in lines if line["type"] == "progress" and line["phase"] == "stream"]
    result = lines[-1]
    return {
        "recall": result["recall_at_10"],
        "fan-out": result["fan_out"],
        "copies": result["copies"],
        "load max/mean": uneven(load(stream)),
        "rows max/mean": uneven(result["rows_per_partition"]),
        "p50 ms": result["query_p50_ms"],
        "p99 ms": result["query_p99_ms"],
        "search us": result["search_us"],
        "write us": result["write_us"],
    }


def main() -> None:
    """Run what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vstream", type=Path, default=Path("dist/bin/vstream"))
    parser.add_argument("--out", type=Path, default=Path("run/encoders"))
    parser.add_argument("--stream", default="data/glove100/base.fbin")
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), choices=list(ENCODERS))
    parser.add_argument("--parallelism", type=int, default=4)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=30)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(arguments.encoders):
        job = JOB.replace("ENCODER", ENCODERS[name]).replace("STREAM", arguments.stream)
        job = job.replace("PARTITIONS", str(arguments.parallelism))
        job = job.replace("RATE", str(arguments.rate)).replace("SECONDS", str(arguments.seconds))
        row = summary(run(arguments.vstream, job, arguments.out / str(number)))
        show({"encoder": name}, row, head=number == 0)


if __name__ == "__main__":
    main()
