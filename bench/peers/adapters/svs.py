"""Scalable Vector Search: DynamicVamana in single precision."""

from __future__ import annotations

import numpy as np
import svs

from adapters.peer import F32Array, IdArray, Peer, Setup

# Deleted rows stay in the graph until it is consolidated; its documentation does so in batches.
_DELETES_PER_CONSOLIDATION = 5_000


class Adapter(Peer):
    """Degree 32, window 200 at construction."""

    parameters = f"degree=32 window=200 f32, consolidate per {_DELETES_PER_CONSOLIDATION} deletes"

    def __init__(self, setup: Setup) -> None:
        is_l2 = setup.metric == "l2"
        self._distance = svs.DistanceType.L2 if is_l2 else svs.DistanceType.MIP
        self._parameters = svs.VamanaBuildParameters(
            graph_max_degree=32, window_size=200, alpha=1.2 if is_l2 else 0.95
        )
        self._deletes = 0

    def build(self, rows: F32Array) -> None:
        ids = np.arange(len(rows), dtype=np.uint64)
        self._index = svs.DynamicVamana.build(
            self._parameters, rows, ids, self._distance, num_threads=1
        )

    def insert(self, one: int, vector: F32Array) -> None:
        self._index.add(vector[None], np.array([one], dtype=np.uint64))

    def delete(self, one: int) -> None:
        self._index.delete(np.array([one], dtype=np.uint64))
        self._deletes += 1
        if self._deletes % _DELETES_PER_CONSOLIDATION == 0:
            self._index.consolidate()

    def set_effort(self, effort: int) -> None:
        self._index.search_window_size = effort

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._index.search(vector, k)[0][0].astype(np.int64)

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._index.search(queries, k)[0].astype(np.int64)
