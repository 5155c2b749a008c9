"""A data set of ours in the files that VectorDBBench reads."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

# Rows whose true neighbours are found together.
TOGETHER = 50_000
# Shares of the rows that have a label, as VectorDBBench names them.
LABELS = {0.5: "label_50p", 0.1: "label_10p", 0.01: "label_1p"}
SEED = 20261126


def read(path: Path, rows: int | None) -> np.ndarray:
    """A matrix of floats: the number of rows and of columns, then the rows."""
    count, dimension = np.fromfile(path, dtype="<i4", count=2)
    count = int(count if rows is None else min(rows, count))
    flat = np.fromfile(path, dtype="<f4", count=count * int(dimension), offset=8)
    return flat.reshape(count, int(dimension))


def nearest(base: np.ndarray, queries: np.ndarray, k: int, chosen: np.ndarray) -> list[list[int]]:
    """The ``k`` nearest of the chosen rows by cosine, exactly."""
    best = [(np.empty(0, np.float32), np.empty(0, np.int64)) for _ in queries]
    for begin in range(0, len(chosen), TOGETHER):
        some = chosen[begin : begin + TOGETHER]
        scores = queries @ base[some].T
        for at, (found, ids) in enumerate(best):
            found, ids = np.append(found, scores[at]), np.append(ids, some)
            first = np.argsort(-found, kind="stable")[:k]
            best[at] = (found[first], ids[first])
    return [ids.tolist() for _, ids in best]


def labels(rows: int) -> np.ndarray:
    """A label for each row: labels are independent of the vectors."""
    drawn = np.random.default_rng(SEED).random(rows)
    out = np.full(rows, "none", dtype=object)
    edge = 0.0
    for share, name in LABELS.items():
        out[(drawn >= edge) & (drawn < edge + share)] = name
        edge += share
    return out


def write(folder: Path, base: np.ndarray, queries: np.ndarray, k: int) -> None:
    """Writes rows, queries, labels, and the true neighbours with each filter."""
    folder.mkdir(parents=True, exist_ok=True)
    unit = base / np.linalg.norm(base, axis=1, keepdims=True)
    asked = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    ids = np.arange(len(base))
    pd.DataFrame({"id": ids, "emb": list(unit)}).to_parquet(
        folder / "train.parquet", row_group_size=math.ceil(len(base) / 30)
    )
    numbers = np.arange(len(queries))
    pd.DataFrame({"id": numbers, "emb": list(asked)}).to_parquet(folder / "test.parquet")
    of_rows = labels(len(base))
    pd.DataFrame({"id": ids, "labels": of_rows}).to_parquet(folder / "scalar_labels.parquet")
    chosen = {"neighbors": ids}
    chosen |= {f"neighbors_labels_{name}": ids[of_rows == name] for name in LABELS.values()}
    for name, some in chosen.items():
        found = nearest(unit, asked, k, some)
        pd.DataFrame({"id": numbers, "neighbors_id": found}).to_parquet(folder / f"{name}.parquet")
