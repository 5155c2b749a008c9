"""The mixed workload as a list, the same for every peer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

INSERTS_PER_CYCLE = 3
_SEED = 42


@dataclass(frozen=True, slots=True)
class Plan:
    """Cycles of [insert x3, delete a random live row, query], after `preload` rows.

    Attributes
    ----------
    preload
        Rows that are there before the first cycle: ids 0 to preload - 1.
    deletes
        Id that cycle c deletes, after its inserts and before its query.
    died
        Cycle that deletes each id; more than there are for those that stay.
    """

    preload: int
    deletes: NDArray[np.int64]
    died: NDArray[np.int64]

    @classmethod
    def of(cls, rows: int) -> Plan:
        """Preload half of `rows` and insert the rest."""
        preload = rows // 2
        cycles = (rows - preload) // INSERTS_PER_CYCLE
        chance = random.Random(_SEED)
        live = list(range(preload))
        deletes = np.empty(cycles, dtype=np.int64)
        for cycle in range(cycles):
            live.extend(range(*_inserted(preload, cycle)))
            at = chance.randrange(len(live))
            deletes[cycle] = live[at]
            live[at] = live[-1]
            live.pop()
        died = np.full(rows, cycles, dtype=np.int64)
        died[deletes] = np.arange(cycles)
        return cls(preload, deletes, died)

    def inserts(self, cycle: int) -> range:
        """Return the ids that a cycle inserts."""
        return range(*_inserted(self.preload, cycle))

    def is_live(self, ids: NDArray[np.integer[Any]], cycle: int) -> NDArray[np.bool_]:
        """Say which ids live when a cycle queries; -1 is the time before the first."""
        return (ids < _inserted(self.preload, cycle)[1]) & (self.died[ids] > cycle)


def _inserted(preload: int, cycle: int) -> tuple[int, int]:
    first = preload + INSERTS_PER_CYCLE * cycle
    return first, first + INSERTS_PER_CYCLE
