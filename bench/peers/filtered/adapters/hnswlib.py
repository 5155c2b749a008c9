"""hnswlib with a filter function, which it calls for every row that it comes to."""

from __future__ import annotations

from typing import Any

import hnswlib
import numpy as np

from filtered.adapters.index import F32Array, FilteredIndex, IdArray, Setup, doubling
from filtered.columns import Attributes
from filtered.filter import Filter, matches

_NOTHING = np.empty(0, dtype=np.int64)


class Adapter(FilteredIndex):
    """M 16, ef at construction 200. The function looks into bytes that numpy made."""

    prepares_masks = True
    efforts = (("", doubling(10, 10_240)),)
    parameters = "M=16 efC=200, the filter is `bytes.__getitem__` of a mask made with numpy"

    def __init__(self, setup: Setup) -> None:
        space = "l2" if setup.metric == "l2" else "ip"
        self._index = hnswlib.Index(space=space, dim=setup.dimension)
        self._index.init_index(max_elements=setup.rows, M=16, ef_construction=200)
        self._index.set_num_threads(1)
        self._ef = 0

    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        self._attributes = attributes
        self._index.add_items(vectors, np.arange(len(vectors)), num_threads=1)

    def prepare(self, conditions: Filter) -> Any:
        if not conditions:
            return None, len(self._attributes)
        mask = matches(conditions, self._attributes)
        # A method of bytes is called in less time than a function of Python's.
        return mask.tobytes().__getitem__, int(mask.sum())

    def search(
        self,
        vector: F32Array,
        prepared: Any,
        k: int,
        mode: str,  # noqa: ARG002
        effort: Any,
    ) -> IdArray:
        if effort != self._ef:
            self._index.set_ef(effort)
            self._ef = effort
        accepts, count = prepared
        try:
            # It raises where it finds fewer rows than it is asked for.
            return self._index.knn_query(vector, k=min(k, count), num_threads=1, filter=accepts)[0][
                0
            ]
        except RuntimeError:
            return _NOTHING
