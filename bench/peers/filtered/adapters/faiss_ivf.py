"""faiss IVF-Flat with a bitmap of the rows that match, as `IDSelectorBitmap` takes it."""

from __future__ import annotations

import math
from typing import Any

import faiss
import numpy as np

from filtered.adapters.index import F32Array, FilteredIndex, IdArray, Setup, doubling
from filtered.columns import Attributes
from filtered.filter import Filter, matches

# faiss trains on at most 256 points per list; more would change nothing but the time.
_POINTS_PER_LIST = 256


class Adapter(FilteredIndex):
    """4 x sqrt(rows) lists. faiss knows no attributes: the bitmap is made with numpy."""

    prepares_masks = True

    def __init__(self, setup: Setup) -> None:
        faiss.omp_set_num_threads(1)
        is_l2 = setup.metric == "l2"
        metric = faiss.METRIC_L2 if is_l2 else faiss.METRIC_INNER_PRODUCT
        lists = 4 * math.isqrt(setup.rows)
        self.efforts = (("", doubling(2, lists)),)
        self.parameters = f"{lists} lists, IDSelectorBitmap made with numpy"
        self._quantizer = faiss.IndexFlat(setup.dimension, metric)
        self._index = faiss.IndexIVFFlat(self._quantizer, setup.dimension, lists, metric)
        self._sample = lists * _POINTS_PER_LIST

    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        self._attributes = attributes
        self._index.train(vectors[: self._sample])
        self._index.add(vectors)

    def prepare(self, conditions: Filter) -> Any:
        if not conditions:
            return None
        return np.packbits(matches(conditions, self._attributes), bitorder="little")

    def search(
        self,
        vector: F32Array,
        prepared: Any,
        k: int,
        mode: str,  # noqa: ARG002
        effort: Any,
    ) -> IdArray:
        # The selector refers to the bitmap and does not keep it.
        selector = None if prepared is None else faiss.IDSelectorBitmap(prepared)
        asked = faiss.SearchParametersIVF(sel=selector, nprobe=effort)
        return self._index.search(vector[None], k, params=asked)[1][0]
