"""Every row compared with numpy: a control of the harness, recall must be 1."""

from __future__ import annotations

import numpy as np

from adapters.peer import F32Array, IdArray, Peer, Setup


class Adapter(Peer):
    """A matrix, and a mark on the rows that live."""

    efforts = (1,)
    effort_min = 1
    effort_max = 1
    parameters = "numpy, all rows"

    def __init__(self, setup: Setup) -> None:
        self._is_l2 = setup.metric == "l2"
        self._rows = np.zeros((setup.rows, setup.dimension), dtype=np.float32)
        self._far = np.full(setup.rows, np.inf, dtype=np.float32)
        self._squares = np.zeros(setup.rows, dtype=np.float32)

    def build(self, rows: F32Array) -> None:
        self._rows[: len(rows)] = rows
        self._squares[: len(rows)] = np.einsum("ij,ij->i", rows, rows)
        self._far[: len(rows)] = 0

    def insert(self, one: int, vector: F32Array) -> None:
        self._rows[one] = vector
        self._squares[one] = vector @ vector
        self._far[one] = 0

    def delete(self, one: int) -> None:
        self._far[one] = np.inf

    def set_effort(self, effort: int) -> None:
        pass

    def query(self, vector: F32Array, k: int) -> IdArray:
        distances = self._far - 2 * (self._rows @ vector)
        if self._is_l2:
            distances += self._squares
        nearest = np.argpartition(distances, k)[:k]
        return nearest[np.argsort(distances[nearest])]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        return np.stack([self.query(query, k) for query in queries])
