"""VStream through its Python package; the effort is the number of leaves that a query visits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import vstream

from adapters.peer import F32Array, IdArray, Peer, Setup

_CALLS = 20_000


class Adapter(Peer):
    """Defaults of `Collection.create`; nothing is trained."""

    efforts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
    effort_min = 1
    effort_max = 512
    parameters = "defaults, f32"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._collection = vstream.Collection.create(setup.dimension, setup.metric)
        self._probes: int | None = None

    def build(self, rows: F32Array) -> None:
        self._collection.upsert(np.arange(len(rows)), rows)

    def insert(self, one: int, vector: F32Array) -> None:
        self._collection.upsert(one, vector)

    def delete(self, one: int) -> None:
        self._collection.delete(one)

    def set_effort(self, effort: Any) -> None:
        self._probes = effort

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._collection.search(vector, k, probes=self._probes)[0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._collection.search_batch(queries, k, probes=self._probes)[0]

    def facts(self) -> dict[str, Any]:
        stats = self._collection.stats()
        return {
            "version": vstream.__version__,
            "memory-bytes": stats.memory_bytes,
            "leaves": stats.leaves,
            "probes": stats.probes,
            "splits": stats.splits,
            "merges": stats.merges,
            "moved-rows": stats.moved_rows,
            "recall-estimate": None if stats.recall is None else stats.recall.recall,
            **_call_cost(self._setup),
        }


def _call_cost(setup: Setup) -> dict[str, float]:
    """Microseconds of a call that has next to nothing to do: one row, replaced and found."""
    with vstream.Collection.create(setup.dimension, setup.metric) as one:
        row = np.full(setup.dimension, 0.5, dtype=np.float32)
        one.upsert(0, row)
        return {
            "upsert-call-us": _mean_us(lambda: one.upsert(0, row)),
            "search-call-us": _mean_us(lambda: one.search(row, 10, probes=1)),
        }


def _mean_us(call: Callable[[], object]) -> float:
    started_ns = time.thread_time_ns()
    for _ in range(_CALLS):
        call()
    return (time.thread_time_ns() - started_ns) / _CALLS / 1000
