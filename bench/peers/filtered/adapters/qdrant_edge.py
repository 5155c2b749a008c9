"""Qdrant Edge: one shard inside the process, with an index on every attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import qdrant_edge as qdrant

from filtered.adapters.index import F32Array, FilteredIndex, IdArray, Setup, doubling
from filtered.columns import Attributes
from filtered.filter import Condition, Filter

_ROWS_PER_CALL = 1_000
_INDEXED_FROM_KB = 1_000
_SCHEMA = {
    "keyword": qdrant.PayloadSchemaType.Keyword,
    "keywords": qdrant.PayloadSchemaType.Keyword,
    "i64": qdrant.PayloadSchemaType.Integer,
    "f64": qdrant.PayloadSchemaType.Float,
    # Its MatchValue takes a truth value for a whole number and finds nothing: words stand for both.
    "bool": qdrant.PayloadSchemaType.Keyword,
    "timestamp": qdrant.PayloadSchemaType.Integer,
}


class Adapter(FilteredIndex):
    """HNSW with m 16, ef at construction 200, and links for values that many rows have."""

    # Where fewer bytes of vectors match, they are scanned; no value with fewer gets links.
    scanned_below_kb = 10_000

    # Its second mode goes on from rows that do not match to their neighbours.
    efforts = (("", doubling(10, 2_560)), ("acorn", doubling(10, 2_560)))

    def __init__(self, setup: Setup) -> None:
        is_l2 = setup.metric == "l2"
        graph = qdrant.HnswIndexConfig(
            m=16,
            ef_construct=200,
            full_scan_threshold=self.scanned_below_kb,
            max_indexing_threads=1,
        )
        self.parameters = (
            f"m=16 ef_construct=200, full_scan_threshold {self.scanned_below_kb:,} kB, every "
            "attribute indexed before the rows came, optimize() after the build"
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
        self._kinds = setup.kinds
        # The graph gets links per value of an attribute only if its index is there first.
        for name, kind in setup.kinds.items():
            operation = qdrant.UpdateOperation.create_field_index(name, _SCHEMA[kind])
            self._shard.update(operation)

    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        for first in range(0, len(vectors), _ROWS_PER_CALL):
            last = min(first + _ROWS_PER_CALL, len(vectors))
            columns = [attributes[name].plain(first, last) for name in self._kinds]
            payloads = [
                {name: _stored(value) for name, value in pairs if value not in (None, [])}
                for pairs in (
                    zip(self._kinds, row, strict=True) for row in zip(*columns, strict=True)
                )
            ]
            points = [
                qdrant.Point(id=one, vector=row, payload=payload)
                for one, (row, payload) in enumerate(
                    zip(vectors[first:last].tolist(), payloads, strict=True), first
                )
            ]
            self._shard.update(qdrant.UpdateOperation.upsert_points(points))
        self._shard.optimize()

    def prepare(self, conditions: Filter) -> Any:
        if not conditions:
            return None
        return qdrant.Filter(must=[_field(condition) for condition in conditions])

    def search(self, vector: F32Array, prepared: Any, k: int, mode: str, effort: Any) -> IdArray:
        acorn = qdrant.AcornSearchParams(enable=True) if mode == "acorn" else None
        request = qdrant.SearchRequest(
            query=qdrant.Query.Nearest(vector.tolist()),
            limit=k,
            filter=prepared,
            params=qdrant.SearchParams(hnsw_ef=effort, acorn=acorn),
        )
        return np.array([point.id for point in self._shard.search(request)], dtype=np.int64)

    def facts(self) -> dict[str, Any]:
        return {"info": str(self._shard.info())}


def _stored(value: Any) -> Any:
    return str(value) if isinstance(value, bool) else value


def _field(condition: Condition) -> Any:
    name, value = condition.name, condition.value
    if condition.test == "is":
        return qdrant.FieldCondition(name, match=qdrant.MatchValue(_stored(value)))
    if condition.test == "any":
        return qdrant.FieldCondition(name, match=qdrant.MatchAny(value))
    if condition.test == "within":
        low, high = value
        return qdrant.FieldCondition(name, range=qdrant.RangeFloat(gte=low, lt=high))
    limits = {"gte": value} if condition.test == "least" else {"lte": value}
    return qdrant.FieldCondition(name, range=qdrant.RangeFloat(**limits))
