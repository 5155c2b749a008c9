"""The collection: a vector index inside the process that is fresh after every write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Self, cast, overload

from vstream import _arguments, _native
from vstream._schema import check_new, mode, schema
from vstream.errors import Closed, InvalidInput
from vstream.groups import GroupCollection
from vstream.reads import Reads
from vstream.stats import RecallEstimate, Stats
from vstream.writes import Writes

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from types import TracebackType

    from vstream._native import Collection as NativeCollection
    from vstream._schema import Groups

# Longest time for which deletes are remembered.
_SECONDS_MAX = 366 * 86_400


class Collection(Writes, Reads):
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
    ...     _ = c.upsert(np.arange(1000), rows)
    ...     ids, distances = c.search(rows[42], k=3)
    ...     print(ids[0], len(ids), len(c))
    42 3 1000
    """

    _native: NativeCollection
    _path: Path | None

    def __init__(self) -> None:
        """Refuse: a collection is created, opened or restored."""
        raise TypeError("use Collection.create, Collection.open or Collection.restore")

    @overload
    @classmethod
    def create(
        cls,
        dimension: int,
        metric: str = ...,
        element: str = ...,
        path: str | os.PathLike[str] | None = ...,
        *,
        durability: str = ...,
        memory: int | None = ...,
        id: str = ...,
        attributes: Mapping[str, str] | None = ...,
        groups: Literal["isolated"],
    ) -> GroupCollection: ...

    @overload
    @classmethod
    def create(
        cls,
        dimension: int,
        metric: str = ...,
        element: str = ...,
        path: str | os.PathLike[str] | None = ...,
        recall_target: float = ...,
        durability: str = ...,
        memory: int | None = ...,
        code_memory: int | None = ...,
        deletes: str = ...,
        id: str = ...,
        attributes: Mapping[str, str] | None = ...,
        open_attributes: bool = ...,  # noqa: FBT001 - as below.
        *,
        groups: Literal["shared"] | None = ...,
        deletes_remembered: float | None = ...,
        segments: str = ...,
        remote: str | None = ...,
        disk: int | None = ...,
    ) -> Self: ...

    @overload
    @classmethod
    def create(
        cls,
        dimension: int,
        metric: str = ...,
        element: str = ...,
        path: str | os.PathLike[str] | None = ...,
        *,
        durability: str = ...,
        memory: int | None = ...,
        id: str = ...,
        attributes: Mapping[str, str] | None = ...,
        groups: Mapping[str, str],
        deletes_remembered: float | None = ...,
    ) -> Self | GroupCollection: ...

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
        id: str = "u64",
        attributes: Mapping[str, str] | None = None,
        open_attributes: bool = False,  # noqa: FBT001, FBT002 - as in search.
        *,
        groups: Groups = None,
        deletes_remembered: float | None = None,
        segments: str = "clusters",
        remote: str | None = None,
        disk: int | None = None,
    ) -> Self | GroupCollection:
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
            writes it. The latter two need `path`.
        memory
            Bytes of memory for the newest rows and for what is read from the disk, 65,536 or more;
            for a collection with a `path`. Older rows move to files there. Their ids and codes
            stay in memory, some 35 bytes per row at 128 dimensions. All rows stay in memory if it
            is left out. The collection keeps this setting, and the next two.
        code_memory
            Bytes of memory for the codes of those files, which are more than half of what stays in
            memory. The codes that are asked for most are held; a search reads the others when it
            needs them. All are held if it is left out. Needs `memory`.
        deletes
            The order in which rows end, by deletes or because newer ones replace them: `any`, or
            `oldest-first`, as in a sliding window. The latter drops whole files, unread, when
            their rows are gone, and needs `memory`.
        id
            `u64` for whole numbers, `string` for texts of up to 512 bytes.
        attributes
            Types by the names of the attributes: `keyword`, `keywords` (a list of them), `i64`,
            `f64`, `bool` or `timestamp`. Each may be missing in a row. No attribute is called `id`,
            `distance`, `score`, `vector` or `payload`: rows have columns of these names.
        open_attributes
            Whether a name that is not among `attributes` is added with the type of its first value,
            whatever the name: data may bring one that rows have a column of, which comes first.
        groups
            `shared`: every row has a group, its attribute `group`, and a search sees one group or
            all rows. `isolated`: this is a `GroupCollection`, whose searches see one group,
            exactly; it takes none of `recall_target`, `code_memory`, `deletes`,
            `open_attributes`, `deletes_remembered`, `segments`, `remote` and `disk`.
        deletes_remembered
            Seconds, 1 or more, for which the version of a deleted row is kept: meanwhile an upsert
            with a lower `version` does not bring it back. Not at all if it is left out.
        segments
            The index of the largest files of rows: `auto` or `clusters`, or `graph`, a disk graph
            that merges write. At equal memory a graph reads more; it takes more disk, and a quarter
            of a millisecond of CPU time per row to build; it takes none of `code_memory`, string
            ids, attributes and groups. `auto` and `graph` need `memory`.
        remote
            Where files of rows go that searches ask for least: `s3://bucket/folder`, or a folder.
            A search reads ranges of them there. Needs `memory` and `disk`. The directory keeps the
            address, so `open` needs none. Credentials come from the environment
            (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, `AWS_REGION`).
        disk
            Bytes of files of rows that stay in `path`, those that are asked for most.

        Raises
        ------
        InvalidInput
            If an argument is out of range, or without effect, or `path` holds something already.
        Unavailable
            If the directory is in use, or `remote` gives no answer.
        StorageError
            If the directory cannot be written.

        Examples
        --------
        >>> vstream.Collection.create(dimension=128, element="u8")
        Collection(dimension=128, metric='l2', element='u8', rows=0)
        >>> shop = vstream.Collection.create(
        ...     dimension=2, id="string", attributes={"price": "f64", "color": "keyword"}
        ... )
        >>> shop.upsert(["a", "b"], [[0, 1], [1, 0]], attributes={"price": [5.0, 9.0]})
        2
        >>> shop.search([0, 0], where={"price": {"$gte": 6}}).ids
        ['b']
        >>> notes = vstream.Collection.create(dimension=1, groups="shared")
        >>> notes.upsert([1, 2, 3], [[1], [2], [3]], group=["ann", "bob", "ann"])
        3
        >>> notes.search([3], group="ann").ids.tolist(), notes.search([3]).ids.tolist()
        ([3, 1], [3, 2, 1])
        """
        grouping = mode(groups)
        if grouping == "isolated":
            for name, given, usual in [
                ("recall_target", recall_target, 0.95),
                ("code_memory", code_memory, None),
                ("deletes", deletes, "any"),
                ("open_attributes", open_attributes, False),
                ("deletes_remembered", deletes_remembered, None),
                ("segments", segments, "clusters"),
                ("remote", remote, None),
                ("disk", disk, None),
            ]:
                if given != usual:
                    raise InvalidInput(f"groups are isolated: leave {name} out")
            return GroupCollection.create(
                dimension,
                metric,
                element,
                path,
                durability,
                memory,
                id=id,
                attributes=attributes,
            )
        place = None if path is None else _arguments.path(path)
        chosen = _arguments.durability(durability, place)
        if place is not None and _native.Groups.exists(place):
            message = "use GroupCollection.open, or another directory"
            raise InvalidInput(f"the directory holds a collection of groups already: {message}")
        if (remote is None) != (disk is None):
            raise InvalidInput("remote and disk belong together: give both or neither")
        if memory is None:
            _refuse_without_memory(code_memory, deletes, segments, remote)
        far = None
        if remote is not None and disk is not None:
            far = (_arguments.name("remote", remote), _arguments.integer("disk", disk))
        native = _native.Collection.create(
            _arguments.integer("dimension", dimension),
            (
                _arguments.name("metric", metric),
                _arguments.name("element", element),
                schema(id, attributes, is_open=open_attributes, groups=grouping),
            ),
            _arguments.real("recall_target", recall_target),
            None if place is None else (place, chosen, far),
            (
                None if memory is None else _arguments.integer("memory", memory),
                None if code_memory is None else _arguments.integer("code_memory", code_memory),
                _arguments.name("segments", segments),
                _arguments.name("deletes", deletes),
                _milliseconds(deletes_remembered),
            ),
        )
        return cls._wrap(native, place)

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Return whether a directory holds a collection, which `open` would open.

        Examples
        --------
        >>> vstream.Collection.exists(directory / "nothing")
        False
        """
        return _native.Collection.exists(_arguments.path(path))

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
        1
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

    @property
    def attributes(self) -> dict[str, str]:
        """Types by the names of the attributes."""
        return self._native.attributes

    @property
    def groups(self) -> str | None:
        """How rows are grouped: `shared`, or None."""
        return self._native.groups

    def add_attribute(self, name: str, kind: str) -> None:
        """Add an attribute, which no row has yet. One that is there with this type is no error.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.add_attribute("price", "f64")
        >>> c.attributes
        {'price': 'f64'}
        """
        native = self._native
        check_new([_arguments.name("name", name)], native.attributes)
        native.add_attribute(name, _arguments.name("kind", kind))

    def stats(self) -> Stats:
        """Count rows, leaves, bytes and maintenance. Cost: visits every leaf; waits for writers.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert(1, [1])
        1
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
        1
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

        With a limit to memory, and more than a MiB in the log, rows in memory become a segment
        first, so that the collection is soon open again. Closing twice is no error. If the flush
        fails, the collection stays open.
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


def _refuse_without_memory(
    code_memory: int | None, deletes: str, segments: str, remote: str | None
) -> None:
    """Refuse what is about files of rows where all rows stay in memory."""
    # Names that do not exist are left for the engine, which says which there are.
    for name, is_given in [
        ("code_memory", code_memory is not None),
        ("deletes", deletes == "oldest-first"),
        ("segments", segments == "auto"),
        ("remote", remote is not None),
    ]:
        if is_given:
            raise InvalidInput(f"{name} is about files of rows: give path and memory too")


def _milliseconds(seconds: float | None) -> int | None:
    """Return a time in milliseconds. The engine checks its range."""
    if seconds is None:
        return None
    number = _arguments.real("deletes_remembered", seconds)
    if not 0 <= number <= _SECONDS_MAX:
        raise InvalidInput(f"deletes_remembered is {number}: choose 1 s to 366 days")
    return round(number * 1000)
