from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["VERSION", "Collection"]

# A matrix of halves comes as their bits, in uint16.
_Vectors: TypeAlias = (
    NDArray[np.float32] | NDArray[np.uint16] | NDArray[np.uint8] | NDArray[np.int8]
)
# Recall target, probes, refine, exact.
_Effort: TypeAlias = tuple[float | None, int | None, int | None, bool]

VERSION: Final[str]

@final
class Collection:
    @staticmethod
    def create(
        dimension: int,
        kind: tuple[str, str],
        recall_target: float,
        place: tuple[str, str] | None,
        storage: tuple[int | None, int | None, str],
    ) -> Collection: ...
    @staticmethod
    def open(directory: str, durability: str | None) -> Collection: ...
    @staticmethod
    def restore(directory: str, recall_target: float) -> Collection: ...
    def upsert_one(self, one: int, vector: NDArray[np.float32]) -> None: ...
    def upsert_many(self, ids: NDArray[np.int64], vectors: _Vectors) -> None: ...
    def delete(self, ids: NDArray[np.int64]) -> int: ...
    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        effort: _Effort,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
    def search_batch(
        self,
        queries: NDArray[np.float32],
        k: int,
        effort: _Effort,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
    def search_radius(
        self, query: NDArray[np.float32], radius: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
    def snapshot(self, directory: str) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def metric(self) -> str: ...
    @property
    def element(self) -> str: ...
    @property
    def recall_target(self) -> float: ...
