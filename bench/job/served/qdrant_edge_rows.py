"""Qdrant Edge: one shard in files, without a log of writes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import qdrant_edge as qdrant

from rows import Rows

if TYPE_CHECKING:
    from pathlib import Path

# Rows are scanned until the shard is optimised, which is the user's call to make.
_WRITES_PER_OPTIMISE = 5_000
_INDEXED_FROM_KB = 1_000


class QdrantEdgeRows(Rows):
    """HNSW with m 16, ef at construction 200, optimised once per 5,000 writes."""

    def __init__(self, folder: Path, dimension: int, effort: int) -> None:
        graph = qdrant.HnswIndexConfig(m=16, ef_construct=200, full_scan_threshold=10)
        vectors = qdrant.EdgeVectorParams(
            size=dimension, distance=qdrant.Distance.Cosine, hnsw_config=graph
        )
        config = qdrant.EdgeConfig(
            vectors=vectors,
            optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=_INDEXED_FROM_KB),
            wal_enabled=False,
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._shard = qdrant.EdgeShard.create(str(folder), config)
        self._search = qdrant.SearchParams(hnsw_ef=effort)
        self._one_writer = threading.Lock()
        self._writes = 0
        self._is_built = False

    def upsert(self, ids: list[int], vectors: list[list[float]]) -> None:
        points = [qdrant.Point(id=one, vector=row) for one, row in zip(ids, vectors, strict=True)]
        self._write(qdrant.UpdateOperation.upsert_points(points), len(ids))

    def delete(self, ids: list[int]) -> None:
        self._write(qdrant.UpdateOperation.delete_points(ids), len(ids))

    def _write(self, operation: Any, count: int) -> None:
        with self._one_writer:
            self._shard.update(operation)
            self._writes += count
            if self._is_built and self._writes >= _WRITES_PER_OPTIMISE:
                self._shard.optimize()
                self._writes = 0

    def query(self, vector: list[float], k: int) -> list[int]:
        wanted = qdrant.SearchRequest(
            query=qdrant.Query.Nearest(vector), limit=k, params=self._search
        )
        return [point.id for point in self._shard.search(wanted)]

    def first_rows_written(self) -> None:
        with self._one_writer:
            self._shard.optimize()
            self._writes = 0
            self._is_built = True
