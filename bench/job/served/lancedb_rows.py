"""LanceDB: a table in files; each write is a new version of it."""

from __future__ import annotations

import datetime
import math
import threading
from typing import TYPE_CHECKING

import lancedb
import numpy as np
import pyarrow as pa

from rows import Rows

if TYPE_CHECKING:
    from pathlib import Path

# Every write leaves a file behind; without this, queries would read thousands of them.
_CALLS_PER_OPTIMISE = 50
# Queries that are under way read the files of older versions.
_OLDER_KEPT = datetime.timedelta(minutes=1)


class LanceDbRows(Rows):
    """IVF-Flat, of its indexes the one that finds all neighbours in the lists it reads."""

    def __init__(self, folder: Path, dimension: int, effort: int) -> None:
        self._schema = pa.schema(
            [("id", pa.int64()), ("vector", pa.list_(pa.float32(), dimension))]
        )
        self._table = lancedb.connect(str(folder)).create_table("rows", schema=self._schema)
        self._dimension = dimension
        self._lists_read = effort
        self._one_writer = threading.Lock()
        self._calls = 0

    def upsert(self, ids: list[int], vectors: list[list[float]]) -> None:
        values = pa.array(np.asarray(vectors, dtype=np.float32).ravel())
        rows = pa.table(
            {"id": ids, "vector": pa.FixedSizeListArray.from_arrays(values, self._dimension)},
            schema=self._schema,
        )
        with self._one_writer:
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)
            self._written()

    def delete(self, ids: list[int]) -> None:
        with self._one_writer:
            self._table.delete(f"id IN ({', '.join(map(str, ids))})")
            self._written()

    def _written(self) -> None:
        self._calls += 1
        if self._calls % _CALLS_PER_OPTIMISE == 0:
            self._optimise()

    def _optimise(self) -> None:
        self._table.optimize(cleanup_older_than=_OLDER_KEPT)

    def query(self, vector: list[float], k: int) -> list[int]:
        search = self._table.search(np.asarray(vector, dtype=np.float32)).distance_type("cosine")
        found = search.nprobes(self._lists_read).select(["id"]).limit(k).to_arrow()
        return found["id"].to_pylist()

    def first_rows_written(self) -> None:
        with self._one_writer:
            lists = 4 * math.isqrt(self._table.count_rows())
            self._optimise()
            self._table.create_index(metric="cosine", index_type="IVF_FLAT", num_partitions=lists)
            # Without an index over ids every write of rows that may exist reads all of them.
            self._table.create_scalar_index("id", index_type="BTREE")
