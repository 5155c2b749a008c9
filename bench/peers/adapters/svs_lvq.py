"""Scalable Vector Search with LVQ codes: 4 bits to walk the graph, 8 more to rank.

1. The graph is built over codes, as its documentation does, and saved.
2. For the stream it is loaded again as an index that takes rows; static keeps the first one.
"""

from __future__ import annotations

import numpy as np
import svs

from adapters.peer import F32Array, IdArray, Peer, Setup

_DELETES_PER_CONSOLIDATION = 5_000
# Codes of a vector begin at a cache line's half.
_PADDING = 32


class Adapter(Peer):
    """Degree 32, window 200 at construction."""

    def __init__(self, setup: Setup) -> None:
        is_l2 = setup.metric == "l2"
        self._distance = svs.DistanceType.L2 if is_l2 else svs.DistanceType.MIP
        self._parameters = svs.VamanaBuildParameters(
            graph_max_degree=32, window_size=200, alpha=1.2 if is_l2 else 0.95
        )
        self._folder = setup.folder
        self._streams = setup.preload < setup.rows
        self._deletes = 0
        self.parameters = "degree=32 window=200 LVQ 4x8"
        if self._streams:
            self.parameters += f", consolidate per {_DELETES_PER_CONSOLIDATION:,} deletes"

    def build(self, rows: F32Array) -> None:
        stored = str(self._folder / "rows.fvecs")
        svs.write_vecs(rows, stored)
        loader = svs.VectorDataLoader(stored, svs.DataType.float32)
        codes = svs.LVQLoader(loader, primary=4, residual=8, padding=_PADDING)
        self._index = svs.Vamana.build(self._parameters, codes, self._distance, num_threads=1)
        if self._streams:
            parts = [str(self._folder / name) for name in ("config", "graph", "codes")]
            self._index.save(*parts)
            self._index = svs.DynamicVamana(
                parts[0],
                svs.GraphLoader(parts[1]),
                svs.LVQLoader(parts[2], padding=_PADDING),
                distance=self._distance,
                num_threads=1,
                debug_load_from_static=True,
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
