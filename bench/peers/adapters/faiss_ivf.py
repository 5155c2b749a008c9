"""faiss IVF-Flat: lists of whole vectors, deletes through a hash map from id to place."""

from __future__ import annotations

import math

import faiss
import numpy as np

from adapters.peer import F32Array, IdArray, Peer, Setup

# faiss trains on at most 256 points per list; more would change nothing but the time.
_POINTS_PER_LIST = 256


class Adapter(Peer):
    """4 x sqrt(rows) lists, trained on the preloaded rows: a head start that others do not get."""

    efforts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
    effort_min = 1
    effort_max = 512

    def __init__(self, setup: Setup) -> None:
        faiss.omp_set_num_threads(1)
        is_l2 = setup.metric == "l2"
        metric = faiss.METRIC_L2 if is_l2 else faiss.METRIC_INNER_PRODUCT
        # Half the rows are live at first and two thirds at the end: lists for the rows there are.
        lists = 4 * math.isqrt(setup.preload)
        self.parameters = f"{lists} lists, hash direct map"
        self._quantizer = faiss.IndexFlat(setup.dimension, metric)
        self._index = faiss.IndexIVFFlat(self._quantizer, setup.dimension, lists, metric)
        self._sample = lists * _POINTS_PER_LIST

    def build(self, rows: F32Array) -> None:
        self._index.train(rows[: self._sample])
        self._index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index.add_with_ids(rows, np.arange(len(rows)))

    def insert(self, one: int, vector: F32Array) -> None:
        self._index.add_with_ids(vector[None], np.array([one]))

    def delete(self, one: int) -> None:
        # The hash map takes no other selector.
        self._index.remove_ids(faiss.IDSelectorArray(np.array([one])))

    def set_effort(self, effort: int) -> None:
        self._index.nprobe = effort

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._index.search(vector[None], k)[1][0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._index.search(queries, k)[1]
