"""LanceDB: tables in files; each write is a new version of the table."""

from __future__ import annotations

import datetime
import math

import lancedb
import numpy as np
import pyarrow as pa

from adapters.peer import F32Array, IdArray, Peer, Setup

# Every write leaves a file behind; without this, queries would read thousands of them.
_WRITES_PER_OPTIMISE = 500


class Adapter(Peer):
    """IVF-Flat: of its indexes the one that finds all neighbours in the lists it reads."""

    efforts = (1, 2, 4, 8, 16, 32, 64, 128)
    effort_min = 1
    effort_max = 128
    queries_max = 200
    # The newest rows are scanned, so recall in the stream is above that of the build.
    recall_offsets = (-0.1, -0.04, 0.0, 0.03)
    warm_queries = 20

    def __init__(self, setup: Setup) -> None:
        self._metric = "l2" if setup.metric == "l2" else "dot"
        self._dimension = setup.dimension
        self._lists = 4 * math.isqrt(setup.preload)
        self.parameters = (
            f"IVF_FLAT, {self._lists} lists, optimize() per {_WRITES_PER_OPTIMISE} writes"
        )
        self._tables = lancedb.connect(str(setup.folder))
        self._effort = self.effort_min
        self._writes = 0

    def build(self, rows: F32Array) -> None:
        self._table = self._tables.create_table("rows", self._batch(0, rows))
        self._table.create_index(
            metric=self._metric, index_type="IVF_FLAT", num_partitions=self._lists
        )

    def _batch(self, first: int, rows: F32Array) -> pa.Table:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), self._dimension)
        ids = np.arange(first, first + len(rows))
        return pa.table({"id": pa.array(ids), "vector": vectors})

    def insert(self, one: int, vector: F32Array) -> None:
        self._table.add(self._batch(one, vector[None]))
        self._written()

    def delete(self, one: int) -> None:
        self._table.delete(f"id = {one}")
        self._written()

    def _written(self) -> None:
        self._writes += 1
        if self._writes % _WRITES_PER_OPTIMISE == 0:
            self._table.optimize(cleanup_older_than=datetime.timedelta(0))

    def set_effort(self, effort: int) -> None:
        self._effort = effort

    def query(self, vector: F32Array, k: int) -> IdArray:
        search = self._table.search(vector).distance_type(self._metric).nprobes(self._effort)
        return search.select(["id"]).limit(k).to_arrow()["id"].to_numpy()

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        found = np.full((len(queries), k), -1)
        for at, query in enumerate(queries):
            ids = self.query(query, k)
            found[at, : len(ids)] = ids
        return found
