"""A data set of ours in the files that VectorDBBench reads."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from rows import LABELS, labels, nearest, unit

# VectorDBBench reads rows in pieces of this share of them.
PIECES = 30


def write(folder: Path, base: np.ndarray, queries: np.ndarray, k: int) -> None:
    """Write rows, queries, labels, and the true neighbours under each filter."""
    folder.mkdir(parents=True, exist_ok=True)
    base, queries = unit(base), unit(queries)
    ids, numbers = np.arange(len(base)), np.arange(len(queries))
    pieces = math.ceil(len(base) / PIECES)
    frame = pd.DataFrame({"id": ids, "emb": list(base)})
    frame.to_parquet(folder / "train.parquet", row_group_size=pieces)
    pd.DataFrame({"id": numbers, "emb": list(queries)}).to_parquet(folder / "test.parquet")
    of_rows = labels(len(base))
    pd.DataFrame({"id": ids, "labels": of_rows}).to_parquet(folder / "scalar_labels.parquet")
    chosen = {"neighbors": ids}
    chosen |= {f"neighbors_labels_{name}": ids[of_rows == name] for name in LABELS.values()}
    for name, some in chosen.items():
        found = nearest(base, queries, k, some)
        pd.DataFrame({"id": numbers, "neighbors_id": found}).to_parquet(folder / f"{name}.parquet")
