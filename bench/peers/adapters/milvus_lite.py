"""Milvus Lite: the client of Milvus and its server in one machine, in files."""

from __future__ import annotations

import numpy as np
from pymilvus import DataType, MilvusClient

from adapters.peer import F32Array, IdArray, Peer, Setup

_ROWS_PER_CALL = 1_000
_NAME = "rows"


class Adapter(Peer):
    """HNSW with M 16, ef at construction 200."""

    efforts = (10, 20, 40, 80, 160, 320)
    effort_max = 640
    queries_max = 200
    # The newest rows are scanned, so recall in the stream is above that of the build.
    recall_offsets = (-0.1, -0.04, 0.0, 0.03)
    warm_queries = 20
    parameters = "HNSW M=16 efConstruction=200, consistency Strong"

    def __init__(self, setup: Setup) -> None:
        self._metric = "L2" if setup.metric == "l2" else "IP"
        self._client = MilvusClient(str(setup.folder / "rows.db"))
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=setup.dimension)
        index = self._client.prepare_index_params()
        index.add_index(
            "vector",
            index_type="HNSW",
            metric_type=self._metric,
            params={"M": 16, "efConstruction": 200},
        )
        self._client.create_collection(
            _NAME, schema=schema, index_params=index, consistency_level="Strong"
        )
        self.set_effort(self.effort_min)

    def build(self, rows: F32Array) -> None:
        for first in range(0, len(rows), _ROWS_PER_CALL):
            part = rows[first : first + _ROWS_PER_CALL]
            ids = range(first, first + len(part))
            records = [{"id": one, "vector": row} for one, row in zip(ids, part, strict=True)]
            self._client.insert(_NAME, records)
        self._client.flush(_NAME)
        self._client.load_collection(_NAME)

    def insert(self, one: int, vector: F32Array) -> None:
        self._client.insert(_NAME, [{"id": one, "vector": vector}])

    def delete(self, one: int) -> None:
        self._client.delete(_NAME, ids=[one])

    def set_effort(self, effort: int) -> None:
        self._search = {"metric_type": self._metric, "params": {"ef": effort}}

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self.query_batch(vector[None], k)[0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        found = self._client.search(
            _NAME, list(queries), limit=k, search_params=self._search, anns_field="vector"
        )
        return np.array([[row["id"] for row in rows] for rows in found])
