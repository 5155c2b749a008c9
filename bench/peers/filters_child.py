"""Measures one index with filters: `python filters_child.py TASK.json RESULT.json`."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

from adapters import PEERS
from filtered import columns, truth
from filtered.adapters import load, package
from filtered.adapters.index import Setup
from filtered.sweep import Asked, sweep
from harness.data import Distances, read_fbin
from harness.measure import Clock, resident_bytes


def main() -> None:
    """Build, ask every class, write the figures."""
    task, result = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    folder, rows = Path(task["folder"]), int(task["rows"])
    vectors = read_fbin(folder / "base.fbin", rows)
    attributes = columns.read(folder, "base", rows)
    truths = truth.read(Path(task["truth"]))
    setup = Setup(vectors.shape[1], task["metric"], attributes.kinds(), rows, Path(task["scratch"]))
    load_before = os.getloadavg()[0]
    index = load(task["peer"], setup)
    if index.steers_itself:
        index.warm_queries = max(index.warm_queries, task["warm"])
    bytes_before = resident_bytes()
    clock = Clock()
    index.build(vectors, attributes)
    built = clock.spent()
    grown = resident_bytes() - bytes_before
    print(f"{task['peer']}: {rows} rows in {built.wall:.1f} s", flush=True)
    # Python's collector would stop calls at random.
    gc.collect()
    gc.freeze()
    gc.disable()
    asked = Asked(
        rows=attributes,
        distances=Distances(vectors, task["metric"]),
        queries=read_fbin(folder / "query.fbin"),
        k=task["k"],
        target=task["target"],
        seconds=task["seconds"],
    )
    classes = [_swept(index, one, asked) for one in truths]
    figures: dict[str, Any] = {
        "peer": task["peer"],
        "version": _version(package(task["peer"])),
        "parameters": index.parameters,
        "prepares-masks": index.prepares_masks,
        "warm-queries": index.warm_queries,
        "build-s": built.wall,
        "build-cpu-s": built.process,
        "raw-bytes-per-vector": vectors.shape[1] * vectors.itemsize,
        "bytes-per-vector": grown / rows,
        "load-before": load_before,
        "load-after": os.getloadavg()[0],
        "facts": index.facts(),
        "classes": classes,
    }
    result.write_text(json.dumps(figures, indent=1))


def _swept(index: Any, one: truth.Truth, asked: Asked) -> dict[str, Any]:
    found = sweep(index, one, asked)
    shown = [f"{p['mode']}{p['effort']}: {p['recall']:.3f} {p['qps']:.0f}" for p in found["points"]]
    print(f"{one.name}: {'; '.join(shown)}", flush=True)
    return found


def _version(peer: str) -> str:
    packages = PEERS[peer].packages
    return importlib.metadata.version(packages[0]) if packages else ""


if __name__ == "__main__":
    main()
