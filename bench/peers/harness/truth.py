"""The exact nearest rows of every query, once for all peers, and what of them lives when.

1. All queries against all rows, in blocks of both: one product of matrices per block, of which the
   nearest so far are kept. All cores may work: no peer runs meanwhile.
2. More neighbours are kept than are asked for. Which of them live at some cycle of the stream is a
   comparison of numbers, so the truth of that moment costs microseconds, not a scan of all rows.
3. Where too few of the kept ones live, all rows are looked at after all.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.data import Distances, F32Array, read_fbin

if TYPE_CHECKING:
    from pathlib import Path

    from harness.plan import Plan

# A block is 64 MB of distances.
_ROWS_PER_BLOCK = 32_768
_QUERIES_PER_BLOCK = 512
# At least half of the rows live at any time: this many per neighbour, and some for small k.
_KEPT_PER_NEIGHBOUR = 10
_KEPT_MORE = 28


@dataclass(frozen=True, slots=True)
class Truth:
    """The nearest of all rows, per query.

    Attributes
    ----------
    ids, distances
        A row per query, nearest first.
    """

    ids: NDArray[np.int64]
    distances: F32Array

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Read what `make` wrote."""
        with np.load(path) as kept:
            return cls(kept["ids"].astype(np.int64), kept["distances"])

    def kth(self, k: int) -> F32Array:
        """Return each query's distance to its k-th nearest row."""
        return self.distances[:, k - 1]


class LiveTruth:
    """The truth while the rows of a plan come and go."""

    def __init__(self, truth: Truth, plan: Plan, distances: Distances, queries: F32Array) -> None:
        self._truth = truth
        self._plan = plan
        self._all = distances
        self._queries = queries

    def kth(self, query: int, cycle: int, k: int) -> float:
        """Return the distance of a query to its k-th nearest row that lives when a cycle asks."""
        live = self._plan.is_live(self._truth.ids[query], cycle)
        nearest = self._truth.distances[query][live]
        if len(nearest) >= k:
            return float(nearest[k - 1])
        every = self._all.to_all(self._queries[query][None])[0]
        every[~self._plan.is_live(np.arange(len(every)), cycle)] = np.inf
        return float(np.partition(every, k - 1)[k - 1])

    def kth_preloaded(self, queries: int, k: int) -> F32Array:
        """Return the same of the first `queries` queries before the first cycle."""
        found = [self.kth(query, -1, k) for query in range(queries)]
        return np.array(found, dtype=np.float32)


def make(folder: Path, metric: str, rows: int, queries: int, k: int, cache: Path) -> Path:
    """Compute the truth about the first rows and queries of a data set, or find it in `cache`.

    Cost: rows x queries x dimension products; 300,000 x 2,000 takes some seconds.
    """
    digest = hashlib.sha256((folder / "meta.json").read_bytes()).hexdigest()[:12]
    path = cache / f"{folder.name}-{rows}-{queries}-{k}-{digest}.npz"
    if path.exists():
        return path
    started = time.perf_counter()
    base = read_fbin(folder / "base.fbin", rows)
    asked = read_fbin(folder / "query.fbin", queries)
    kept = min(_KEPT_PER_NEIGHBOUR * k + _KEPT_MORE, len(base))
    found = nearest(Distances(base, metric), len(base), asked, kept)
    cache.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial.npz")
    np.savez(beside, ids=found.ids.astype(np.int32), distances=found.distances)
    beside.rename(path)
    seconds = time.perf_counter() - started
    note = {"rows": rows, "queries": len(asked), "neighbours": kept, "seconds": round(seconds, 1)}
    print(f"truth: {json.dumps(note)}", flush=True)
    return path


def nearest(distances: Distances, rows: int, queries: F32Array, kept: int) -> Truth:
    """Return the `kept` nearest of `rows` rows for every query."""
    ids = np.empty((len(queries), kept), dtype=np.int64)
    best = np.empty((len(queries), kept), dtype=np.float32)
    for first in range(0, len(queries), _QUERIES_PER_BLOCK):
        part = slice(first, first + _QUERIES_PER_BLOCK)
        ids[part], best[part] = _nearest_of_block(distances, rows, queries[part], kept)
    return Truth(ids, best)


def _nearest_of_block(
    distances: Distances, rows: int, queries: F32Array, kept: int
) -> tuple[NDArray[np.int64], F32Array]:
    ids = np.empty((len(queries), 0), dtype=np.int64)
    best = np.empty((len(queries), 0), dtype=np.float32)
    for first in range(0, rows, _ROWS_PER_BLOCK):
        last = min(first + _ROWS_PER_BLOCK, rows)
        block = distances.to_range(queries, first, last)
        order = _least(block, kept)
        ids = np.concatenate([ids, order + first], axis=1)
        best = np.concatenate([best, np.take_along_axis(block, order, axis=1)], axis=1)
        order = _least(best, kept)
        ids = np.take_along_axis(ids, order, axis=1)
        best = np.take_along_axis(best, order, axis=1)
    order = np.argsort(best, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(best, order, axis=1)


def _least(values: F32Array, kept: int) -> NDArray[np.int64]:
    if values.shape[1] <= kept:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, kept - 1, axis=1)[:, :kept]
