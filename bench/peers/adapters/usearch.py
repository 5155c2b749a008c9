"""usearch: HNSW in one header; single precision kept, as everywhere here."""

from __future__ import annotations

import numpy as np
from usearch.index import Index

from adapters.peer import F32Array, IdArray, Peer, Setup


class Adapter(Peer):
    """Connectivity 16, expansion at construction 200."""

    parameters = "connectivity=16 expansion_add=200 f32"

    def __init__(self, setup: Setup) -> None:
        self._index = Index(
            ndim=setup.dimension,
            metric="l2sq" if setup.metric == "l2" else "ip",
            dtype="f32",
            connectivity=16,
            expansion_add=200,
        )

    def build(self, rows: F32Array) -> None:
        self._index.add(np.arange(len(rows), dtype=np.uint64), rows, threads=1)

    def insert(self, one: int, vector: F32Array) -> None:
        self._index.add(one, vector, threads=1)

    def delete(self, one: int) -> None:
        self._index.remove(one)

    def set_effort(self, effort: int) -> None:
        self._index.expansion_search = effort

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._index.search(vector, k, threads=1).keys.astype(np.int64)

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._index.search(queries, k, threads=1).keys.astype(np.int64)
