"""Zvec: a collection inside the process, in files."""

from __future__ import annotations

import numpy as np
import zvec

from adapters.peer import F32Array, IdArray, Peer, Setup

_ROWS_PER_CALL = 1_000


class Adapter(Peer):
    """HNSW with m 16, ef at construction 200; ids are texts there."""

    efforts = (10, 20, 40, 80, 160, 320)
    effort_max = 640
    queries_max = 500
    # The newest rows are scanned, so recall in the stream is above that of the build.
    recall_offsets = (-0.1, -0.04, 0.0, 0.03)
    parameters = "HNSW m=16 ef_construction=200 contiguous memory, optimize() after the build"

    def __init__(self, setup: Setup) -> None:
        zvec.init(query_threads=1, optimize_threads=1, log_level=zvec.LogLevel.ERROR)
        metric = zvec.MetricType.L2 if setup.metric == "l2" else zvec.MetricType.IP
        graph = zvec.HnswIndexParam(
            metric_type=metric, m=16, ef_construction=200, use_contiguous_memory=True
        )
        field = zvec.VectorSchema("row", zvec.DataType.VECTOR_FP32, setup.dimension, graph)
        schema = zvec.CollectionSchema(name="rows", vectors=field)
        self._collection = zvec.create_and_open(
            str(setup.folder / "rows"), schema, zvec.CollectionOption()
        )
        self.set_effort(self.effort_min)

    def build(self, rows: F32Array) -> None:
        for first in range(0, len(rows), _ROWS_PER_CALL):
            part = rows[first : first + _ROWS_PER_CALL]
            _written(
                self._collection.insert([_row(first + at, row) for at, row in enumerate(part)])
            )
        self._collection.optimize()

    def insert(self, one: int, vector: F32Array) -> None:
        _written([self._collection.insert(_row(one, vector))])

    def delete(self, one: int) -> None:
        _written([self._collection.delete(str(one))])

    def set_effort(self, effort: int) -> None:
        self._search = zvec.HnswQueryParam(ef=effort)

    def query(self, vector: F32Array, k: int) -> IdArray:
        query = zvec.Query(field_name="row", vector=vector, param=self._search)
        return np.array([int(row.id) for row in self._collection.query(query, topk=k)])

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return np.array([self.query(query, k) for query in queries])


def _row(one: int, vector: F32Array) -> zvec.Doc:
    return zvec.Doc(id=str(one), vectors={"row": vector})


def _written(statuses: list[zvec.Status]) -> None:
    failed = [status for status in statuses if not status.ok()]
    if failed:
        raise RuntimeError(f"a write failed: {failed[0].message()}")
