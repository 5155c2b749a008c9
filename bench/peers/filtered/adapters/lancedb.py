"""LanceDB: a table in files, its filter a SQL text that is applied before the vector search."""

from __future__ import annotations

import json
import math
from typing import Any

import lancedb
import pyarrow as pa

from filtered.adapters.index import F32Array, FilteredIndex, IdArray, Setup, doubling
from filtered.columns import Attributes
from filtered.filter import Condition, Filter

_ROWS_PER_BATCH = 50_000
# Kind of attribute: type of the column, and the index that its documentation advises.
_COLUMNS = {
    "keyword": (pa.string(), "BITMAP"),
    "keywords": (pa.list_(pa.string()), "LABEL_LIST"),
    "i64": (pa.int64(), "BTREE"),
    "f64": (pa.float64(), "BTREE"),
    "bool": (pa.bool_(), "BITMAP"),
    "timestamp": (pa.int64(), "BTREE"),
}


class Adapter(FilteredIndex):
    """IVF-Flat: of its indexes the one that finds all neighbours in the lists it reads."""

    def __init__(self, setup: Setup) -> None:
        self._metric = "l2" if setup.metric == "l2" else "dot"
        self._dimension, self._kinds = setup.dimension, setup.kinds
        lists = 4 * math.isqrt(setup.rows)
        self._lists = lists
        # Fewer lists cost it as much as these.
        self.efforts = (("", doubling(min(16, lists), lists)),)
        self.parameters = (
            f"IVF_FLAT, {lists} lists, BITMAP, LABEL_LIST and BTREE on attributes, prefilter"
        )
        self._tables = lancedb.connect(str(setup.folder))

    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        first = self._batch(vectors, attributes, 0)
        table = self._tables.create_table("rows", first)
        for start in range(_ROWS_PER_BATCH, len(vectors), _ROWS_PER_BATCH):
            table.add(self._batch(vectors, attributes, start))
        table.optimize()
        table.create_index(metric=self._metric, index_type="IVF_FLAT", num_partitions=self._lists)
        for name, kind in self._kinds.items():
            table.create_scalar_index(name, index_type=_COLUMNS[kind][1])
        self._table = table

    def _batch(self, vectors: F32Array, attributes: Attributes, first: int) -> pa.Table:
        last = min(first + _ROWS_PER_BATCH, len(vectors))
        part = vectors[first:last]
        packed = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), self._dimension)
        columns = {"id": pa.array(range(first, last)), "vector": packed}
        for name, kind in self._kinds.items():
            columns[name] = pa.array(attributes[name].plain(first, last), _COLUMNS[kind][0])
        return pa.table(columns)

    def prepare(self, conditions: Filter) -> str | None:
        return " AND ".join(_sql(condition) for condition in conditions) or None

    def search(
        self,
        vector: F32Array,
        prepared: Any,
        k: int,
        mode: str,  # noqa: ARG002
        effort: Any,
    ) -> IdArray:
        search = self._table.search(vector).distance_type(self._metric).nprobes(effort)
        if prepared is not None:
            search = search.where(prepared, prefilter=True)
        return search.select(["id", "_distance"]).limit(k).to_arrow()["id"].to_numpy()


def _sql(condition: Condition) -> str:
    name, value = condition.name, condition.value
    if condition.test == "any":
        return f"array_has_any({name}, [{', '.join(_literal(one) for one in value)}])"
    if condition.test == "within":
        low, high = value
        return f"{name} >= {low!r} AND {name} < {high!r}"
    sign = {"is": "=", "least": ">=", "most": "<="}[condition.test]
    return f"{name} {sign} {_literal(value)}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)
