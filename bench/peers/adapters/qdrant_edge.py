"""Qdrant Edge: one shard inside the process, in files, without a log of writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import qdrant_edge as qdrant

from adapters.peer import F32Array, IdArray, Peer, Setup

_ROWS_PER_CALL = 1_000
# Rows are scanned until the shard is optimised, which is the user's call to make.
_WRITES_PER_OPTIMISE = 5_000
_INDEXED_FROM_KB = 1_000


class Adapter(Peer):
    """HNSW with m 16, ef at construction 200."""

    efforts = (10, 20, 40, 80, 160, 320)
    effort_max = 640
    queries_max = 500
    # The newest rows are scanned, so recall in the stream is above that of the build.
    recall_offsets = (-0.1, -0.04, 0.0, 0.03)
    parameters = (
        f"m=16 ef_construct=200, no log, optimize() after the build and per "
        f"{_WRITES_PER_OPTIMISE:,} writes"
    )

    def __init__(self, setup: Setup) -> None:
        is_l2 = setup.metric == "l2"
        graph = qdrant.HnswIndexConfig(
            m=16, ef_construct=200, full_scan_threshold=10, max_indexing_threads=1
        )
        vectors = qdrant.EdgeVectorParams(
            size=setup.dimension,
            distance=qdrant.Distance.Euclid if is_l2 else qdrant.Distance.Dot,
            hnsw_config=graph,
        )
        config = qdrant.EdgeConfig(
            vectors=vectors,
            optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=_INDEXED_FROM_KB),
            max_search_threads=1,
            wal_enabled=False,
        )
        self._shard = qdrant.EdgeShard.create(str(setup.folder), config)
        self._search = qdrant.SearchParams(hnsw_ef=self.effort_min)
        self._writes = 0

    def build(self, rows: F32Array) -> None:
        for first in range(0, len(rows), _ROWS_PER_CALL):
            part = rows[first : first + _ROWS_PER_CALL].tolist()
            points = [qdrant.Point(id=one, vector=row) for one, row in enumerate(part, first)]
            self._shard.update(qdrant.UpdateOperation.upsert_points(points))
        self._shard.optimize()

    def insert(self, one: int, vector: F32Array) -> None:
        point = qdrant.Point(id=one, vector=vector.tolist())
        self._write(qdrant.UpdateOperation.upsert_points([point]))

    def delete(self, one: int) -> None:
        self._write(qdrant.UpdateOperation.delete_points([one]))

    def _write(self, operation: Any) -> None:
        self._shard.update(operation)
        self._writes += 1
        if self._writes % _WRITES_PER_OPTIMISE == 0:
            self._shard.optimize()

    def set_effort(self, effort: int) -> None:
        self._search = qdrant.SearchParams(hnsw_ef=effort)

    def query(self, vector: F32Array, k: int) -> IdArray:
        query = qdrant.Query.Nearest(vector.tolist())
        found = self._shard.search(qdrant.SearchRequest(query=query, limit=k, params=self._search))
        return np.array([point.id for point in found])

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return np.array([self.query(query, k) for query in queries])
