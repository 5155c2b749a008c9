"""faiss HNSW: no delete of its own; a bitmap keeps deleted rows out of the answers."""

from __future__ import annotations

import faiss
import numpy as np

from adapters.peer import F32Array, IdArray, Peer, Setup


class Adapter(Peer):
    """M 16, ef at construction 200. Ids come in order, so they are faiss's own row numbers."""

    parameters = "M=16 efC=200, deletes by bitmap: memory is never reclaimed"

    def __init__(self, setup: Setup) -> None:
        faiss.omp_set_num_threads(1)
        metric = faiss.METRIC_L2 if setup.metric == "l2" else faiss.METRIC_INNER_PRODUCT
        self._index = faiss.IndexHNSWFlat(setup.dimension, 16, metric)
        self._index.hnsw.efConstruction = 200
        self._live = np.full((setup.rows + 7) // 8, 0xFF, dtype=np.uint8)
        self._selector = faiss.IDSelectorBitmap(self._live)
        self._any_deleted = False
        self._search: faiss.SearchParametersHNSW | None = None
        self._effort = 0

    def build(self, rows: F32Array) -> None:
        self._index.add(rows)

    def insert(self, one: int, vector: F32Array) -> None:
        if one != self._index.ntotal:
            raise ValueError(f"id {one} follows {self._index.ntotal - 1}: ids must come in order")
        self._index.add(vector[None])

    def delete(self, one: int) -> None:
        self._live[one >> 3] &= ~np.uint8(1 << (one & 7))
        if not self._any_deleted:
            self._any_deleted = True
            self.set_effort(self._effort)

    def set_effort(self, effort: int) -> None:
        self._effort = effort
        if self._any_deleted:
            self._search = faiss.SearchParametersHNSW(efSearch=effort, sel=self._selector)
        else:
            self._search = faiss.SearchParametersHNSW(efSearch=effort)

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._index.search(vector[None], k, params=self._search)[1][0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._index.search(queries, k, params=self._search)[1]
