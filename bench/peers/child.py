"""Measures one peer in a process of its own: `python child.py TASK.json RESULT.json`."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

from adapters import PEERS, load
from adapters.peer import Setup
from harness import mixed, static
from harness.data import read_fbin
from harness.measure import Clock, resident_bytes
from harness.plan import Plan
from harness.task import Task
from harness.truth import Truth


def main() -> None:
    """Build, run the workload, write the figures."""
    task, result = Task.read(Path(sys.argv[1])), Path(sys.argv[2])
    folder = Path(task.folder)
    rows = read_fbin(folder / "base.fbin", task.rows)
    queries = read_fbin(folder / "query.fbin", task.queries)
    truth = Truth.read(Path(task.truth))
    plan = Plan.of(task.rows)
    preload = task.rows if task.workload == "static" else plan.preload
    importlib.import_module(f"adapters.{task.peer}")

    load_before = os.getloadavg()[0]
    bytes_before = resident_bytes()
    setup = Setup(rows.shape[1], task.metric, task.rows, preload, Path(task.scratch))
    peer = load(task.peer, setup)
    clock = Clock()
    peer.build(rows[:preload])
    built = clock.spent()
    grown = resident_bytes() - bytes_before
    print(f"{task.peer}: {preload} rows in {built.wall:.1f} s", flush=True)
    # Python's collector would stop a peer's calls at random.
    gc.collect()
    gc.freeze()
    gc.disable()

    figures: dict[str, Any] = {
        "peer": task.peer,
        "version": _version(task.peer),
        "parameters": peer.parameters,
        "rows": task.rows,
        "build-rows": preload,
        "build-s": built.wall,
        "build-cpu-s": built.process,
        "raw-bytes-per-vector": rows.shape[1] * rows.itemsize,
        "bytes-per-vector": grown / preload,
        "load-before": load_before,
    }
    if task.workload == "static":
        figures.update(static.sweep(peer, rows, queries, task, truth))
    else:
        figures.update(mixed.run(peer, rows, queries, task, plan, truth))
    figures["load-after"] = os.getloadavg()[0]
    figures["facts"] = peer.facts()
    result.write_text(json.dumps(figures, indent=1))


def _version(peer: str) -> str:
    packages = PEERS[peer].packages
    return importlib.metadata.version(packages[0]) if packages else ""


if __name__ == "__main__":
    main()
