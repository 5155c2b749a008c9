"""The least effort that reaches a recall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.data import Distances, F32Array, recall

if TYPE_CHECKING:
    from adapters.peer import Peer


class Tuner:
    """Measures recall over queries that are not used for anything else."""

    def __init__(self, peer: Peer, distances: Distances, queries: F32Array, k: int) -> None:
        self._peer = peer
        self._distances = distances
        self._queries = queries
        self._kth = distances.kth(queries, k)
        self._k = k

    def recall_at(self, effort: object) -> float:
        """Return the recall that the peer reaches with this effort."""
        self._peer.set_effort(effort)
        answers = self._peer.query_batch(self._queries, self._k)
        return recall(self._distances, self._queries, answers, self._kth)

    def least(self, target: float) -> tuple[int, float]:
        """Return the least effort whose recall is at least `target`, and that recall.

        Doubles the effort until the target is reached, then halves the interval. Where no effort
        reaches it, the answer is the largest.
        """
        low, high = self._peer.effort_min, self._peer.effort_min
        found = self.recall_at(high)
        while found < target and high < self._peer.effort_max:
            low, high = high + 1, min(high * 2, self._peer.effort_max)
            found = self.recall_at(high)
        if found < target:
            return high, found
        while low < high:
            middle = (low + high) // 2
            reached = self.recall_at(middle)
            if reached >= target:
                high, found = middle, reached
            else:
                low = middle + 1
        self._peer.set_effort(high)
        return high, found
