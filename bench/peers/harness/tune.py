"""The least effort that reaches a recall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.data import Distances, F32Array, recalls

if TYPE_CHECKING:
    from adapters.peer import Peer


class Tuner:
    """Measures recall over queries that are not used for anything else."""

    def __init__(
        self, peer: Peer, distances: Distances, queries: F32Array, kth: F32Array, k: int
    ) -> None:
        self._peer = peer
        self._distances = distances
        self._queries = queries
        self._kth = kth
        self._k = k
        self._known: dict[int, float] = {}

    def recall_at(self, effort: int) -> float:
        """Return the recall that the peer reaches with this effort; each is measured once."""
        if effort not in self._known:
            self._peer.set_effort(effort)
            answers = self._peer.query_batch(self._queries, self._k)
            each = recalls(self._distances, self._queries, answers, self._kth)
            self._known[effort] = float(each.mean())
        return self._known[effort]

    def least(self, target: float) -> int:
        """Return the least effort whose recall is at least `target`.

        Doubles the effort until the target is reached, then halves the interval. Where no effort
        reaches it, the answer is the largest.
        """
        low = high = self._peer.effort_min
        while self.recall_at(high) < target and high < self._peer.effort_max:
            low, high = high + 1, min(high * 2, self._peer.effort_max)
        while low < high and self.recall_at(high) >= target:
            middle = (low + high) // 2
            if self.recall_at(middle) >= target:
                high = middle
            else:
                low = middle + 1
        return high
