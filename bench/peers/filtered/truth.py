"""The exact answers to queries with filters, once for all peers and before any of them runs.

Per class: all queries against all rows, a block of queries at a time; rows that the filter does not
let through are infinitely far. Kept are the number of rows that match, and the distance of the
k-th nearest of them, or of the farthest where there are fewer. Queries without any match are left
out.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from filtered import cases, columns
from filtered.filter import Filter, Masks, as_json, from_json, matches
from harness.data import Distances, F32Array, read_fbin

_QUERIES_PER_BLOCK = 64
# Masks that are kept: the random classes have few different filters, the real ones many.
_MASKS_KEPT = 128


@dataclass(frozen=True, slots=True)
class Truth:
    """A class of queries with filters, and what is right.

    Attributes
    ----------
    name, about
        For tables.
    queries
        Numbers of the queries.
    filters
        A filter for each of them.
    matches
        How many rows each filter lets through; at least one.
    kth
        Distance of each query to the k-th nearest row that matches, or to the last one.
    """

    name: str
    about: str
    queries: NDArray[np.int64]
    filters: tuple[Filter, ...]
    matches: NDArray[np.int64]
    kth: F32Array

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "name": self.name,
            "about": self.about,
            "queries": self.queries.tolist(),
            "filters": [as_json(one) for one in self.filters],
            "matches": self.matches.tolist(),
            "kth": self.kth.tolist(),
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Truth:
        """Read what `as_json` returned."""
        return cls(
            found["name"],
            found["about"],
            np.array(found["queries"], dtype=np.int64),
            tuple(from_json(one) for one in found["filters"]),
            np.array(found["matches"], dtype=np.int64),
            np.array(found["kth"], dtype=np.float32),
        )


def read(path: Path) -> list[Truth]:
    """Read what `make` wrote."""
    return [Truth.from_json(one) for one in json.loads(path.read_text())]


def make(folder: Path, metric: str, rows: int, count: int, k: int, cache: Path) -> Path:
    """Draw the classes and find their truth, or find it in `cache`.

    `count` is the number of queries per class. Cost: classes x rows x count x dimension products;
    300,000 rows and 300 queries of 100 numbers take 17 CPU seconds.
    """
    # Other classes have another truth.
    deciding = (folder / "meta.json", folder / "attributes.json", Path(cases.__file__))
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in deciding)).hexdigest()[:12]
    path = cache / f"filters-{folder.name}-{rows}-{count}-{k}-{digest}.json"
    if path.exists():
        return path
    started = time.perf_counter()
    base = read_fbin(folder / "base.fbin", rows)
    asked = read_fbin(folder / "query.fbin")
    attributes = columns.read(folder, "base", rows)
    drawn = cases.make(attributes, columns.read(folder, "query", len(asked)), count)
    distances = Distances(base, metric)
    found = [of_case(case, distances, asked, attributes, k) for case in drawn]
    cache.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    beside.write_text(json.dumps([truth.as_json() for truth in found if len(truth.queries)]))
    beside.rename(path)
    print(f"truth: {len(found)} classes in {time.perf_counter() - started:.0f} s", flush=True)
    return path


def of_case(
    case: cases.Case, distances: Distances, asked: F32Array, rows: columns.Attributes, k: int
) -> Truth:
    """Find the truth of one class; queries without a match are left out."""
    counts, farthest = [], []
    masks: dict[str, Masks] = {}
    for first in range(0, len(case.queries), _QUERIES_PER_BLOCK):
        part = slice(first, first + _QUERIES_PER_BLOCK)
        block = distances.to_all(asked[list(case.queries[part])])
        for row, conditions in zip(block, case.filters[part], strict=True):
            key = repr(conditions)
            if key not in masks:
                if len(masks) >= _MASKS_KEPT:
                    masks.clear()
                masks[key] = matches(conditions, rows)
            those = row[masks[key]]
            counts.append(len(those))
            kept = min(k, len(those))
            farthest.append(np.partition(those, kept - 1)[kept - 1] if kept else np.inf)
    there = np.flatnonzero(counts)
    return Truth(
        case.name,
        case.about,
        np.array(case.queries, dtype=np.int64)[there],
        tuple(case.filters[at] for at in there),
        np.array(counts, dtype=np.int64)[there],
        np.array(farthest, dtype=np.float32)[there],
    )
