"""hnswlib: the graph that others are measured against. Slots of deleted rows are used again."""

from __future__ import annotations

import hnswlib
import numpy as np

from adapters.peer import F32Array, IdArray, Peer, Setup


class Adapter(Peer):
    """M 16, ef at construction 200."""

    parameters = "M=16 efC=200, slots reused"

    def __init__(self, setup: Setup) -> None:
        space = "l2" if setup.metric == "l2" else "ip"
        self._index = hnswlib.Index(space=space, dim=setup.dimension)
        self._index.init_index(
            max_elements=setup.rows, M=16, ef_construction=200, allow_replace_deleted=True
        )
        self._index.set_num_threads(1)

    def build(self, rows: F32Array) -> None:
        self._index.add_items(rows, np.arange(len(rows)), num_threads=1)

    def insert(self, one: int, vector: F32Array) -> None:
        self._index.add_items(vector, one, num_threads=1, replace_deleted=True)

    def delete(self, one: int) -> None:
        self._index.mark_deleted(one)

    def set_effort(self, effort: int) -> None:
        self._index.set_ef(effort)

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._index.knn_query(vector, k=k, num_threads=1)[0][0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._index.knn_query(queries, k=k, num_threads=1)[0]
