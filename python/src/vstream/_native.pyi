from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["VERSION", "Collection", "Group", "Groups"]

# A matrix of halves comes as their bits, in uint16.
_Vectors: TypeAlias = (
    NDArray[np.float32] | NDArray[np.uint16] | NDArray[np.uint8] | NDArray[np.int8]
)
# Recall target, probes, refine, exact.
_Effort: TypeAlias = tuple[float | None, int | None, int | None, bool]

# Whole numbers, or texts in a collection of string ids.
_Ids: TypeAlias = NDArray[np.int64] | list[str]
# Form ("dict", "json", "sql", "all"), text, parameters as a JSON list, and a shared group.
_Filter: TypeAlias = tuple[str, str, str, str | None]
# Name, type and values of attributes, and payloads.
_Fields: TypeAlias = tuple[list[tuple[str, str, Any]], list[bytes | None] | None]
# Names of attributes, None for all, and whether the payload is wanted.
_Wanted: TypeAlias = tuple[list[str] | None, bool]
_Columns: TypeAlias = list[tuple[str, str, list[Any]]]
# Ids, attributes, payloads, vectors.
_Rows: TypeAlias = tuple[_Ids, _Columns, list[bytes | None] | None, NDArray[np.float32] | None]
# An attribute, rows per value, and whether `k` counts values.
_Spread: TypeAlias = tuple[str, int, bool]
# Ids, distances, attributes, payloads, scores, and the type and values by which rows are grouped.
_Found: TypeAlias = tuple[
    _Ids,
    NDArray[np.float32],
    _Columns,
    list[bytes | None] | None,
    NDArray[np.float64] | None,
    tuple[str, list[tuple[Any, int]]] | None,
]

class _GroupQuery(TypedDict):
    k: int
    filter: _Filter | None
    radius: float | None
    # Words, how many must be there (-1 for all), whether rows must match, and a language.
    text: tuple[str, int, bool, str | None] | None
    rank: tuple[str, list[tuple[str, float]]] | None
    # Milliseconds since 1970.
    now: int | None
    spread: _Spread | None

VERSION: Final[str]

@final
class Collection:
    @staticmethod
    def create(
        dimension: int,
        kind: tuple[str, str, str],
        recall_target: float,
        place: tuple[str, str, tuple[str, int] | None] | None,
        storage: tuple[int | None, int | None, str, str, int | None],
    ) -> Collection: ...
    @staticmethod
    def exists(directory: str) -> bool: ...
    @staticmethod
    def open(directory: str, durability: str | None) -> Collection: ...
    @staticmethod
    def restore(directory: str, recall_target: float) -> Collection: ...
    def upsert_one(self, one: int, vector: NDArray[np.float32]) -> None: ...
    def upsert_many(
        self,
        ids: _Ids,
        vectors: _Vectors,
        fields: _Fields | None,
        how: tuple[_Filter | None, Callable[[int, int], None] | None, NDArray[np.int64] | None],
    ) -> int: ...
    def update(self, ids: _Ids, fields: _Fields, versions: NDArray[np.int64] | None) -> int: ...
    def delete(self, ids: _Ids, versions: NDArray[np.int64] | None) -> int: ...
    def delete_where(self, condition: _Filter, version: int | None) -> int: ...
    def get(self, ids: _Ids, wanted: _Wanted, vectors: bool) -> _Rows: ...
    def scroll(
        self,
        condition: _Filter | None,
        page: tuple[int, int | str | None],
        wanted: _Wanted,
        vectors: bool,
    ) -> tuple[_Rows, int | str | None]: ...
    def count(self, condition: _Filter) -> int: ...
    def add_attribute(self, name: str, kind: str) -> None: ...
    def search(
        self,
        query: NDArray[np.float32],
        how: tuple[int, _Effort],
        which: tuple[_Filter | None, float | None, _Spread | None],
        wanted: _Wanted | None,
    ) -> _Found: ...
    def search_batch(
        self,
        queries: NDArray[np.float32],
        k: int,
        effort: _Effort,
        condition: _Filter | None,
    ) -> tuple[NDArray[np.int64] | list[list[str | None]], NDArray[np.float32]]: ...
    def search_radius(
        self, query: NDArray[np.float32], radius: float, condition: _Filter | None
    ) -> tuple[_Ids, NDArray[np.float32]]: ...
    def snapshot(self, directory: str) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    @property
    def attributes(self) -> dict[str, str]: ...
    @property
    def open_attributes(self) -> bool: ...
    @property
    def dimension(self) -> int: ...
    @property
    def metric(self) -> str: ...
    @property
    def element(self) -> str: ...
    @property
    def recall_target(self) -> float: ...
    @property
    def groups(self) -> str | None: ...

@final
class Group:
    def upsert_one(self, one: int, vector: NDArray[np.float32]) -> None: ...
    def upsert_many(
        self,
        ids: _Ids,
        vectors: _Vectors,
        fields: _Fields | None,
        how: tuple[_Filter | None, Callable[[int, int], None] | None, NDArray[np.int64] | None],
    ) -> int: ...
    def update(self, ids: _Ids, fields: _Fields, versions: NDArray[np.int64] | None) -> int: ...
    def delete(self, ids: _Ids, versions: NDArray[np.int64] | None) -> int: ...
    def delete_where(self, condition: _Filter, version: int | None) -> int: ...
    def drop(self) -> None: ...
    def get(self, ids: _Ids, wanted: _Wanted, vectors: bool) -> _Rows: ...
    def scroll(
        self,
        condition: _Filter | None,
        page: tuple[int, int | str | None],
        wanted: _Wanted,
        vectors: bool,
    ) -> tuple[_Rows, int | str | None]: ...
    def count(self, condition: _Filter) -> int: ...
    def search(
        self, query: NDArray[np.float32] | None, given: _GroupQuery, wanted: _Wanted | None
    ) -> _Found: ...
    def __len__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def attributes(self) -> dict[str, str]: ...
    @property
    def open_attributes(self) -> bool: ...
    @property
    def groups(self) -> str | None: ...

@final
class Groups:
    @staticmethod
    def create(
        dimension: int,
        kind: tuple[str, str, str],
        place: tuple[str, str] | None,
        sizes: tuple[int | None, int | None],
    ) -> Groups: ...
    @staticmethod
    def exists(directory: str) -> bool: ...
    @staticmethod
    def open(
        directory: str,
        durability: str,
        sizes: tuple[int | None, int | None],
        more: list[tuple[str, str]],
    ) -> Groups: ...
    def group(self, name: str) -> Group: ...
    def groups(self, after: str | None, limit: int) -> list[tuple[str, int]]: ...
    def commit(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, int]: ...
    @property
    def attributes(self) -> dict[str, str]: ...
    @property
    def dimension(self) -> int: ...
    @property
    def metric(self) -> str: ...
    @property
    def element(self) -> str: ...
    @property
    def id(self) -> str: ...
