"""What the harness asks of a peer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32Array = NDArray[np.float32]
IdArray = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Setup:
    """What an index is made for.

    Attributes
    ----------
    dimension
        Numbers per vector.
    metric
        `l2`, or `cosine`; the vectors have length 1 then, so peers without a cosine of their own
        use the inner product, which ranks the same.
    rows
        Rows that will ever be written; ids are 0 to rows - 1 and come in this order.
    preload
        Rows of the bulk build, which come first.
    folder
        An empty folder, for those that want files.
    """

    dimension: int
    metric: str
    rows: int
    preload: int
    folder: Path


class Peer(ABC):
    """One index, one thread, driven through its own best interface.

    Attributes
    ----------
    efforts
        Values of the effort knob for the static sweep, cheapest first.
    effort_max
        Largest effort that tuning may choose; efforts from 1 on are tried there.
    effort_min
        Smallest effort that tuning may choose.
    warm_queries
        Queries that are asked before any are measured.
    queries_max
        Queries that are asked in a sweep or in tuning, None for all: for those that would need
        minutes.
    recall_offsets
        Recalls that the efforts of a stream are tuned to, beside the target. Rows come while an
        effort stays, which costs most peers a point or two: these are below and above the target
        for all of them. One, where another effort for each query would cost something.
    parameters
        Build parameters in words, for the table.
    """

    efforts: tuple[Any, ...] = (10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640)
    effort_min: int = 10
    effort_max: int = 800
    warm_queries: int = 200
    queries_max: int | None = None
    recall_offsets: tuple[float, ...] = (-0.015, 0.0, 0.015, 0.03)
    parameters: str = ""

    @abstractmethod
    def build(self, rows: F32Array) -> None:
        """Index `rows` in bulk, with the ids 0 to len(rows) - 1."""

    @abstractmethod
    def set_effort(self, effort: Any) -> None:
        """Let later queries work this hard."""

    @abstractmethod
    def query(self, vector: F32Array, k: int) -> IdArray:
        """Return the ids of the `k` nearest rows of one vector."""

    @abstractmethod
    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        """Return a matrix of ids, a row per query; -1 where there are fewer than `k`."""

    def insert(self, one: int, vector: F32Array) -> None:
        """Add one row, searchable when this returns."""
        raise NotImplementedError

    def delete(self, one: int) -> None:
        """Remove one live row."""
        raise NotImplementedError

    def warm(self, queries: F32Array, k: int) -> None:
        """Ask before the clock runs: caches fill, and what steers itself gets its chance."""
        for at in range(self.warm_queries):
            self.query(queries[at % len(queries)], k)

    def facts(self) -> dict[str, Any]:
        """Whatever else is worth a place in the JSON."""
        return {}
