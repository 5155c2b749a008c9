"""faiss IVF-PQ FastScan with exact re-ranking; static only: its re-ranker cannot delete."""

from __future__ import annotations

import itertools
import math

import faiss

from adapters.peer import F32Array, IdArray, Peer, Setup


class Adapter(Peer):
    """4 x sqrt(rows) lists, 4 bits for each two dimensions; effort: (lists, factor of k)."""

    # Sorted by lists x factor, roughly the cost; the table takes the Pareto front.
    efforts = tuple(
        sorted(
            itertools.product((1, 2, 4, 8, 16, 32, 64, 128), (3, 6, 12, 24)),
            key=lambda effort: effort[0] * effort[1],
        )
    )

    def __init__(self, setup: Setup) -> None:
        faiss.omp_set_num_threads(1)
        metric = faiss.METRIC_L2 if setup.metric == "l2" else faiss.METRIC_INNER_PRODUCT
        lists = 4 * math.isqrt(setup.preload)
        recipe = f"IVF{lists},PQ{setup.dimension // 2}x4fsr,RFlat"
        self.parameters = recipe
        self._index = faiss.index_factory(setup.dimension, recipe, metric)
        self._search: faiss.IndexRefineSearchParameters | None = None

    def build(self, rows: F32Array) -> None:
        self._index.train(rows)
        self._index.add(rows)

    def set_effort(self, effort: tuple[int, int]) -> None:
        lists, factor = effort
        inner = faiss.SearchParametersIVF(nprobe=lists)
        self._search = faiss.IndexRefineSearchParameters(k_factor=factor, base_index_params=inner)

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self._index.search(vector[None], k, params=self._search)[1][0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return self._index.search(queries, k, params=self._search)[1]
