"""VStream through its Python package, steered to one recall target."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import vstream

from filtered.adapters.index import F32Array, FilteredIndex, IdArray, Setup
from filtered.columns import Attributes
from filtered.filter import Condition, Filter

# A collection is steered to one target, and a query cannot ask for more or for less effort.
_TARGETS = (0.95,)
_ROWS_PER_CALL = 50_000


class Adapter(FilteredIndex):
    """Defaults of `Collection.create`: it steers itself, also where queries have filters."""

    efforts = (("", _TARGETS),)
    # Some of the queries are audited. After this many the effort still errs on the safe side.
    warm_queries = 500
    steers_itself = True
    parameters = "defaults, f32, recall target 0.95"

    def __init__(self, setup: Setup) -> None:
        if "attributes" not in inspect.signature(vstream.Collection.create).parameters:
            raise SystemExit(f"vstream {vstream.__version__} has no attributes to filter by")
        self._collection = vstream.Collection.create(
            dimension=setup.dimension, metric=setup.metric, attributes=setup.kinds
        )
        self._kinds = setup.kinds

    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        for first in range(0, len(vectors), _ROWS_PER_CALL):
            last = min(first + _ROWS_PER_CALL, len(vectors))
            values = {name: attributes[name].plain(first, last) for name in self._kinds}
            self._collection.upsert(np.arange(first, last), vectors[first:last], attributes=values)

    def prepare(self, conditions: Filter) -> dict[str, Any] | None:
        return {one.name: _test(one) for one in conditions} or None

    def search(
        self,
        vector: F32Array,
        prepared: Any,
        k: int,
        mode: str,  # noqa: ARG002
        effort: Any,
    ) -> IdArray:
        return self._collection.search(vector, k, where=prepared, recall_target=effort)[0]

    def facts(self) -> dict[str, Any]:
        stats = self._collection.stats()
        return {"version": vstream.__version__, "memory-bytes": stats.memory_bytes}


def _test(condition: Condition) -> Any:
    value = condition.value
    if condition.test == "is":
        return value
    if condition.test == "within":
        low, high = value
        return {"$gte": low, "$lt": high}
    return {{"any": "$any", "least": "$gte", "most": "$lte"}[condition.test]: value}
