"""Rows, queries and labels for VectorDBBench, and the true neighbours."""

from pathlib import Path

import numpy as np

# Rows whose distances are taken together.
TOGETHER = 50_000
# Shares of the rows that have a label, as VectorDBBench names them.
LABELS = {0.5: "label_50p", 0.1: "label_10p", 0.01: "label_1p"}
SEED = 20261126


def read(path: Path, rows: int | None) -> np.ndarray:
    """Read a matrix of floats: the number of rows and of columns, then the rows."""
    count, dimension = np.fromfile(path, dtype="<i4", count=2)
    count = int(count if rows is None else min(rows, count))
    flat = np.fromfile(path, dtype="<f4", count=count * int(dimension), offset=8)
    return flat.reshape(count, int(dimension))


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return the directions of vectors."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def nearest(base: np.ndarray, queries: np.ndarray, k: int, chosen: np.ndarray) -> list[list[int]]:
    """Find the ``k`` nearest of the chosen rows exactly; all vectors are directions."""
    best = [(np.empty(0, np.float32), np.empty(0, np.int64)) for _ in queries]
    for begin in range(0, len(chosen), TOGETHER):
        some = chosen[begin : begin + TOGETHER]
        scores = queries @ base[some].T
        for at, (found, ids) in enumerate(best):
            all_found, all_ids = np.append(found, scores[at]), np.append(ids, some)
            first = np.argsort(-all_found, kind="stable")[:k]
            best[at] = (all_found[first], all_ids[first])
    return [ids.tolist() for _, ids in best]


def labels(rows: int) -> np.ndarray:
    """Draw a label for each row, independent of its vector."""
    drawn = np.random.default_rng(SEED).random(rows)
    out = np.full(rows, "none", dtype=object)
    edge = 0.0
    for share, name in LABELS.items():
        out[(drawn >= edge) & (drawn < edge + share)] = name
        edge += share
    return out
