"""The collection: a vector index inside the process that is fresh after every write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self, cast

from vstream import _arguments, _native
from vstream.errors import Closed, InvalidInput
from vstream.stats import RecallEstimate, Stats

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from types import TracebackType

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from vstream._native import Collection as NativeCollection


class Collection:
    """Vectors of one dimension, element type and metric, searchable as they are written.

    Make one with `Collection.create`, `Collection.open` or `Collection.restore`.

    *Freshness.* A search finds a row once `upsert` has returned, and no longer once `delete` has.

    *Threads.* Every method may be called from any thread and runs without the interpreter lock.
    Writers take turns; searches wait for nobody. Do not change an array while a call reads it.

    *Arrays.* Packed float32 arrays (and matrices of float16, uint8 and int8 in `upsert`) are read
    in place; other numbers are converted with one copy. Ids are whole numbers from 0 to 2**63 - 1.

    *Distances.* Smaller is closer: `l2` is the squared Euclidean distance, `cosine` is
    1 - cos(a, b), `inner_product` is the negated product.

    Examples
    --------
    >>> import numpy as np
    >>> import vstream
    >>> rng = np.random.default_rng(7)
    >>> rows = rng.standard_normal((1000, 16), dtype=np.float32)
    >>> with vstream.Collection.create(dimension=16, metric="cosine") as c:
    ...     c.upsert(np.arange(1000), rows)
    ...     ids, distances = c.search(rows[42], k=3)
    ...     print(ids[0], len(ids), len(c))
    42 3 1000
    """

    _native: NativeCollection
    _path: Path | None

    def __init__(self) -> None:
        """Refuse: a collection is created, opened or restored."""
        raise TypeError("use Collection.create, Collection.open or Collection.restore")

    @classmethod
    def create(
        cls,
        dimension: int,
        metric: str = "l2",
        element: str = "f32",
        path: str | os.PathLike[str] | None = None,
        recall_target: float = 0.95,
        durability: str = "sync",
        memory: int | None = None,
        code_memory: int | None = None,
        deletes: str = "any",
    ) -> Self:
        """Make an empty collection.

        Parameters
        ----------
        dimension
            Numbers per vector, 1 to 4096.
        metric
            `l2`, `cosine` or `inner_product`.
        element
            How the numbers are kept: `f32`; `f16` or `bf16`, which take half the memory and round
            to 11 or 8 significant bits (`f16` refuses what is beyond 65504, `bf16` has the range
            of `f32`); `u8` or `i8` for whole numbers from 0 to 255 or from -128 to 127. Vectors
            for `bf16` are given as float32. Under `cosine` the directions of whole numbers are
            kept as `f32`.
        path
            A directory to keep the rows in, which must not hold a collection yet. Every write goes
            to a log there. Without a path the collection lives in memory.
        recall_target
            Share of the true neighbours that searches find on average, 0.5 to 0.999. The engine
            measures its recall in the background, within 3 % of one core, and adjusts its effort.
            That takes some hundred searches, and lags behind a collection that grows quickly.
        durability
            When a write to a collection with a `path` survives a crash. `sync`: when the call has
            returned. It waits for the disk, once for all writers that wait at that time, so write
            many rows per call. `async`: at most 100 ms later; a crash loses the newest writes and
            no older one. `none`: after the next `flush` or `close`, or when the operating system
            writes it.
        memory
            Bytes of memory for the newest rows and for what is read from the disk, 65,536 or more;
            for a collection with a `path`. Older rows move to files there. Their ids and codes
            stay in memory, some 35 bytes per row at 128 dimensions. All rows stay in memory if it
            is left out. The collection keeps this setting, and the next two.
        code_memory
            Bytes of memory for the codes of those files, which are more than half of what stays in
            memory. The codes that are asked for most are held; a search reads the others when it
            needs them. All are held if it is left out.
        deletes
            The order in which rows end, by deletes or because newer ones replace them: `any`, or
            `oldest-first`, as in a sliding window. The latter drops whole files, unread, when
            their rows are gone.

        Raises
        ------
        InvalidInput
            If an argument is out of range, or `path` holds something already.
        Unavailable
            If the directory is in use.
        StorageError
            If the directory cannot be written.

        Examples
        --------
        >>> vstream.Collection.create(dimension=128, element="u8")
        Collection(dimension=128, metric='l2', element='u8', rows=0)
        """
        chosen = _arguments.name("durability", durability)
        place = None if path is None else _arguments.path(path)
        native = _native.Collection.create(
            _arguments.integer("dimension", dimension),
            (_arguments.name("metric", metric), _arguments.name("element", element)),
            _arguments.real("recall_target", recall_target),
            None if place is None else (place, chosen),
            (
                None if memory is None else _arguments.integer("memory", memory),
                None if code_memory is None else _arguments.integer("code_memory", code_memory),
                _arguments.name("deletes", deletes),
            ),
        )
        return cls._wrap(native, place)

    @classmethod
    def open(cls, path: str | os.PathLike[str], durability: str | None = None) -> Self:
        """Open the directory of a collection that was created with `path`.

        It has every row that was promised, whatever happened to the process. Cost: reads and
        indexes the rows that were in memory, which are all rows unless `memory` was set.

        Parameters
        ----------
        path
            The directory.
        durability
            As in `create`, until the collection is closed; that of `create` if it is left out.

        Raises
        ------
        InvalidInput
            If there is no collection.
        Unavailable
            If it is open already, here or in another process.
        CorruptData
            If any byte differs from what was written.

        Examples
        --------
        >>> with vstream.Collection.create(dimension=2, path=directory / "points") as c:
        ...     c.upsert(7, [1, 2])
        >>> with vstream.Collection.open(directory / "points") as c:
        ...     print(len(c))
        1
        """
        place = _arguments.path(path)
        chosen = None if durability is None else _arguments.name("durability", durability)
        return cls._wrap(_native.Collection.open(place, chosen), place)

    @classmethod
    def restore(cls, path: str | os.PathLike[str], recall_target: float = 0.95) -> Self:
        """Make a collection in memory with the rows of a snapshot.

        It also reads the snapshot of one partition of a stream job. Such a job may have ids from
        2**63 on; they come back as negative numbers, as in Java.

        Raises
        ------
        StorageError
            If there is no snapshot, or it cannot be read.
        CorruptData
            If any byte differs from what was written.
        Unsupported
            If a newer version wrote it.
        """
        text = _arguments.path(path)
        target = _arguments.real("recall_target", recall_target)
        return cls._wrap(_native.Collection.restore(text, target))

    def upsert(self, ids: int | Sequence[int] | NDArray[np.integer], vectors: ArrayLike) -> None:
        """Add rows, or replace those with the same ids; later searches see them.

        All arguments are checked before the first change. If an id comes twice, its last row stays.
        A large matrix is written in stretches: other writers get their turn, searches see the rows
        arrive, and Ctrl-C between two stretches keeps what was written.

        Parameters
        ----------
        ids
            One id, or one per vector.
        vectors
            One vector, or a matrix with a vector per row. Values are finite, such as the element
            takes, and not all zero under `cosine`.

        Raises
        ------
        InvalidInput
            If anything does not fit. Nothing is changed then.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=2)
        >>> c.upsert(1, [0.5, 0.5])
        >>> c.upsert([1, 2], [[0, 1], [1, 0]])
        >>> len(c)
        2
        """
        one = _arguments.one_id(ids)
        if one is not None:
            vector = _arguments.vector("the vector", vectors, many="upsert with a list of ids")
            self._native.upsert_one(one, vector)
            return
        matrix = _arguments.matrix("the vectors", vectors)
        self._native.upsert_many(_arguments.many_ids(ids), matrix)

    def delete(self, ids: int | Sequence[int] | NDArray[np.integer]) -> int:
        """Remove the rows of one or several ids; return how many there were.

        An id that does not exist is no error.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([1, 2, 3], [[1], [2], [3]])
        >>> c.delete([1, 2, 99])
        2
        """
        one = _arguments.one_id(ids)
        return self._native.delete(_arguments.many_ids(ids if one is None else [one]))

    def search(
        self,
        query: ArrayLike,
        k: int = 10,
        recall_target: float | None = None,
        probes: int | None = None,
        refine: int | None = None,
        exact: bool = False,  # noqa: FBT001, FBT002 - reads well by name, and is the last one.
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Find the nearest rows.

        Parameters
        ----------
        query
            A vector: finite values, not all zero under `cosine`.
        k
            Rows wanted, 1 to 1000.
        recall_target
            Share of the true neighbours that the answer should hold on average. The engine is
            steered to one target per collection: a value up to the collection's own is met by the
            same effort, a higher one is refused as `Unsupported`.
        probes
            Visit this many leaves, instead of what the recall target needs.
        refine
            Together with `probes`: take the exact distance of this many rows, the best by their
            codes, but of `k` at least. In proportion to `probes` if it is not given.
        exact
            Look at every row.

        Returns
        -------
        ids, distances
            Arrays of int64 and float32, nearest first, ties by id. They are shorter than `k` if
            fewer rows live (or, if not `exact`, fewer were reached).

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([10, 20, 30], [[1], [2], [3]])
        >>> c.search([2.1], k=2)[0].tolist()
        [20, 30]
        """
        return self._native.search(
            _arguments.vector("the query", query, many="search_batch"),
            _arguments.integer("k", k),
            _effort(recall_target, probes, refine, exact),
        )

    def search_batch(
        self,
        queries: ArrayLike,
        k: int = 10,
        recall_target: float | None = None,
        probes: int | None = None,
        refine: int | None = None,
        exact: bool = False,  # noqa: FBT001, FBT002 - as in search.
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Find the nearest rows of several queries, one after the other on this thread.

        Parameters are those of `search`, but `queries` is a matrix with a query per row.

        Returns
        -------
        ids, distances
            Matrices with a row per query and `k` columns. Where fewer than `k` rows were found
            the rest is filled with the id -1 at distance infinity.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([10, 20], [[1], [2]])
        >>> ids, distances = c.search_batch([[0], [3]], k=3)
        >>> ids.tolist()
        [[10, 20, -1], [20, 10, -1]]
        >>> distances.tolist()
        [[1.0, 4.0, inf], [1.0, 4.0, inf]]
        """
        return self._native.search_batch(
            _arguments.f32_matrix("the queries", queries),
            _arguments.integer("k", k),
            _effort(recall_target, probes, refine, exact),
        )

    def search_radius(
        self, query: ArrayLike, radius: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Find every row within a distance, exactly.

        Parameters
        ----------
        query
            A vector, as in `search`.
        radius
            A distance of the metric: squared under `l2`, `1 - cos` under `cosine`.

        Returns
        -------
        ids, distances
            Arrays of int64 and float32, nearest first, ties by id. Cost: looks at every row of
            the leaves that may hold one; under `inner_product` at every row.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([10, 20, 30], [[1], [2], [5]])
        >>> ids, distances = c.search_radius([1.5], radius=0.25)
        >>> ids.tolist(), distances.tolist()
        ([10, 20], [0.25, 0.25])
        """
        return self._native.search_radius(
            _arguments.vector("the query", query, many="search_batch"), float(radius)
        )

    def stats(self) -> Stats:
        """Count rows, leaves, bytes and maintenance. Cost: visits every leaf; waits for writers.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert(1, [1])
        >>> c.stats().live_rows
        1
        """
        counts = self._native.stats()
        recall = counts.pop("recall")
        return Stats(**counts, recall=None if recall is None else RecallEstimate(*recall))

    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Write all rows to a new directory, for `Collection.restore`.

        Writers wait meanwhile, searches do not. The directory must not hold a snapshot yet.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert(1, [1])
        >>> c.snapshot(directory / "backup")
        >>> vstream.Collection.restore(directory / "backup")
        Collection(dimension=1, metric='l2', element='f32', rows=1)
        """
        self._native.snapshot(_arguments.path(path))

    def flush(self) -> None:
        """Force every write so far to the disk, whatever the collection's durability.

        Raises
        ------
        InvalidInput
            If the collection was created without `path`.
        StorageError
            If it cannot be written. After a full disk the rows are kept in memory, and the next
            write or flush tries again; after anything else open the collection again.
        """
        native = self._native
        len(native)  # A closed collection says so first.
        if self._path is None:
            raise InvalidInput("the collection has no path to flush to: use snapshot")
        native.flush()

    def close(self) -> None:
        """Flush, if the collection has a directory, and free the memory.

        Closing twice is no error. If the flush fails, the collection stays open.
        """
        if not self.closed:
            self._native.close()
            self._native = cast("NativeCollection", _ClosedCollection())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return isinstance(self._native, _ClosedCollection)

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return self._native.dimension

    @property
    def metric(self) -> str:
        """Name of the distance: `l2`, `cosine` or `inner_product`."""
        return self._native.metric

    @property
    def element(self) -> str:
        """How the numbers are kept: `f32`, `f16`, `bf16`, `u8` or `i8`."""
        return self._native.element

    @property
    def recall_target(self) -> float:
        """Share of the true neighbours that searches aim at."""
        return self._native.recall_target

    @property
    def path(self) -> Path | None:
        """The directory of a persistent collection."""
        return self._path

    def __len__(self) -> int:
        """Return the number of rows. Cost: nothing."""
        return len(self._native)

    def __enter__(self) -> Self:
        """Return the collection, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Return its settings and its number of rows, for display."""
        if self.closed:
            return "Collection(closed)"
        place = "" if self._path is None else f", path={str(self._path)!r}"
        return (
            f"Collection(dimension={self.dimension}, metric={self.metric!r}, "
            f"element={self.element!r}, rows={len(self)}{place})"
        )

    @classmethod
    def _wrap(cls, native: NativeCollection, path: str | None = None) -> Self:
        """Wrap an engine."""
        made = cls.__new__(cls)
        made._native = native
        made._path = None if path is None else Path(path)
        return made


class _ClosedCollection:
    """Stands in for the engine of a closed collection."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Closed("the collection is closed: open it again")

    def __len__(self) -> NoReturn:
        raise Closed("the collection is closed: open it again")


def _effort(
    recall_target: float | None, probes: int | None, refine: int | None, exact: object
) -> tuple[float | None, int | None, int | None, bool]:
    """Return the settings of one search, for the native half."""
    if type(exact) is not bool:
        raise InvalidInput(f"exact is {exact!r}: pass True or False")
    return (
        None if recall_target is None else _arguments.real("recall_target", recall_target),
        None if probes is None else _arguments.integer("probes", probes),
        None if refine is None else _arguments.integer("refine", refine),
        exact,
    )
