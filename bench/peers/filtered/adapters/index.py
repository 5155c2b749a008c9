"""What the harness asks of an index that searches with filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from filtered.columns import Attributes
from filtered.filter import Filter

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
        `l2`, or `cosine`; the vectors have length 1 then.
    kinds
        The kind of each attribute, by name.
    rows
        Rows of the bulk build.
    folder
        An empty folder, for those that want files.
    """

    dimension: int
    metric: str
    kinds: dict[str, str]
    rows: int
    folder: Path


class FilteredIndex(ABC):
    """One index, one thread, driven through its own best interface.

    Attributes
    ----------
    efforts
        Modes, each with the values of its effort knob, cheapest first. All modes are swept, and
        the best points of any count.
    prepares_masks
        Whether `prepare` looks at the attributes of all rows, because the index knows none. The
        tables show the search with that time and without it then.
    warm_queries
        Queries with filters that are asked before any are measured, at each effort.
    steers_itself
        Whether the index learns from queries how far to go, so that more of them before the
        measured ones change its figures.
    parameters
        Build parameters in words, for the table.
    """

    efforts: tuple[tuple[str, tuple[Any, ...]], ...]
    prepares_masks: bool = False
    warm_queries: int = 20
    steers_itself: bool = False
    parameters: str = ""

    @abstractmethod
    def build(self, vectors: F32Array, attributes: Attributes) -> None:
        """Index rows in bulk, with the ids 0 to len(vectors) - 1."""

    @abstractmethod
    def prepare(self, conditions: Filter) -> Any:
        """Put a filter into the form that `search` takes. Its time is a part of the query's."""

    @abstractmethod
    def search(self, vector: F32Array, prepared: Any, k: int, mode: str, effort: Any) -> IdArray:
        """Return the ids of the `k` nearest rows that match, or as many as it finds."""

    def facts(self) -> dict[str, Any]:
        """Whatever else is worth a place in the JSON."""
        return {}


def doubling(least: int, most: int) -> tuple[int, ...]:
    """Return efforts from `least` on, each twice the one before, and `most` at the end."""
    found = []
    effort = least
    while effort < most:
        found.append(effort)
        effort *= 2
    return (*found, most)
