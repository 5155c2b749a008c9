"""numpy over the rows that match: a control, its recall must be 1, and what few matches ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from filtered.adapters.index import F32Array, FilteredIndex, IdArray, Setup
from filtered.columns import Attributes
from filtered.filter import Filter, matches


class Adapter(FilteredIndex):
    """A matrix."""

    efforts = (("", (1,)),)
    prepares_masks = True
    parameters = "numpy, all rows that match"

    def __init__(self, setup: Setup) -> None:
        self._is_l2 = setup.metric == "l2"

    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        self._vectors, self._attributes = vectors, attributes
        self._squares = np.einsum("ij,ij->i", vectors, vectors)

    def prepare(self, conditions: Filter) -> IdArray | None:
        # Without a filter the rows need not be copied.
        return np.flatnonzero(matches(conditions, self._attributes)) if conditions else None

    def search(
        self,
        vector: F32Array,
        prepared: Any,
        k: int,
        mode: str,  # noqa: ARG002
        effort: Any,  # noqa: ARG002 - there is but one.
    ) -> IdArray:
        every = prepared is None
        products = (self._vectors if every else self._vectors[prepared]) @ vector
        distances = -2 * products
        if self._is_l2:
            distances += self._squares if every else self._squares[prepared]
        kept = min(k, len(distances))
        nearest = np.argpartition(distances, kept - 1)[:kept]
        nearest = nearest[np.argsort(distances[nearest])]
        return nearest if every else prepared[nearest]
