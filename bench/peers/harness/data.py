"""Vectors from .fbin files, and the exact truth about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32Array = NDArray[np.float32]

# Rounding of a float32 sum, relative; rows this near to the last true neighbour are as good as it.
_TIE = 1e-5


def read_fbin(path: Path, rows_max: int | None = None) -> F32Array:
    """Read the first `rows_max` vectors: u32 rows, u32 dimension, then float32, little endian."""
    with path.open("rb") as file:
        rows, dimension = (int(x) for x in np.fromfile(file, dtype="<u4", count=2))
        wanted = rows if rows_max is None else min(rows, rows_max)
        values = np.fromfile(file, dtype="<f4", count=wanted * dimension)
    if len(values) != wanted * dimension:
        raise SystemExit(f"{path} is cut short: make the data set again.")
    return values.reshape(wanted, dimension).astype(np.float32, copy=False)


class Distances:
    """Exact distances between queries and rows, smaller is closer.

    `l2` is the squared Euclidean distance; `cosine` is 1 - product of vectors of length 1.
    """

    def __init__(self, rows: F32Array, metric: str) -> None:
        self._rows = rows
        self._is_l2 = metric == "l2"
        self._squares = np.einsum("ij,ij->i", rows, rows)

    def to_all(self, queries: F32Array) -> F32Array:
        """Return a matrix, a row per query and a column per row."""
        return self.to_range(queries, 0, len(self._rows))

    def to_range(self, queries: F32Array, first: int, last: int) -> F32Array:
        """Return the same for the rows from `first` to before `last`."""
        products = queries @ self._rows[first:last].T
        if not self._is_l2:
            return np.subtract(np.float32(1), products, out=products)
        squares = np.einsum("ij,ij->i", queries, queries)
        products *= -2
        products += squares[:, None]
        products += self._squares[first:last]
        return products

    def to_some(self, query: F32Array, ids: NDArray[np.integer[Any]]) -> F32Array:
        """Return the distances of one query to the rows `ids`."""
        products = self._rows[ids] @ query
        if not self._is_l2:
            return np.float32(1) - products
        return query @ query + self._squares[ids] - 2 * products


def hits(
    distances: Distances, query: F32Array, answer: NDArray[np.integer[Any]], kth: float
) -> int:
    """Count the different ids in `answer` that are no farther than the k-th true neighbour.

    Of several rows at the same distance each is as good as the other.
    """
    ids = np.unique(answer[answer >= 0])
    limit = kth + _TIE * abs(kth) + _TIE / 10
    return int(np.count_nonzero(distances.to_some(query, ids) <= limit))


def recalls(
    distances: Distances, queries: F32Array, answers: NDArray[np.integer[Any]], kth: F32Array
) -> NDArray[np.float64]:
    """Return the share of the true neighbours that each answer holds."""
    k = answers.shape[1]
    each = (hits(distances, *one) for one in zip(queries, answers, kth, strict=True))
    return np.array([min(found, k) / k for found in each])


def margin(values: NDArray[np.float64]) -> float:
    """Half width of the 95 % confidence interval of the mean of independent values."""
    if len(values) < 2:
        return 1.0
    return float(1.96 * values.std(ddof=1) / len(values) ** 0.5)
