"""Isolated groups: a mailbox per user, a catalogue per tenant."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self, cast

from vstream import _arguments, _native
from vstream._schema import ROW_COLUMNS, check_new, kinds, schema
from vstream.errors import Closed, InvalidInput
from vstream.filters import native_filter
from vstream.reads import RowReads, answer, spread, wanted
from vstream.stats import GroupStats
from vstream.writes import Writes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import ArrayLike

    from vstream._native import Group as NativeGroup
    from vstream._native import Groups as NativeGroups
    from vstream._native import _GroupQuery as NativeQuery
    from vstream.filters import Where
    from vstream.rows import Answer

_PAGE = 1000
_LEAST = {"any": 0, "all": -1}


class GroupCollection:
    """Groups of rows that never see each other: a query names one group and searches it exactly.

    Make one with `GroupCollection.create` or `GroupCollection.open`. All rows of a group lie
    together on the disk; memory holds the newest rows, a cache, and a fraction of a byte per row.
    So there may be millions of groups, of a few rows or of some hundred thousand. `group` gives one
    of them, which has the methods for rows.

    *Freshness.* A search finds a row once `upsert` has returned, and no longer once `delete` has.

    *Threads.* Every method may be called from any thread and runs without the interpreter lock.
    Writers take turns; searches wait for nobody. A thread of its own merges files.

    Examples
    --------
    >>> import vstream
    >>> mail = vstream.GroupCollection.create(
    ...     dimension=2, id="string", attributes={"subject": "text", "sent": "timestamp"}
    ... )
    >>> ann, bob = mail.group("ann"), mail.group("bob")
    >>> ann.upsert(
    ...     ["m1", "m2"],
    ...     [[0, 1], [1, 0]],
    ...     attributes={"subject": ["Your invoice", "Lunch on Friday?"]},
    ... )
    2
    >>> bob.upsert("m1", [0, 1], attributes={"subject": "An invoice for Bob"})
    1
    >>> ann.search([0, 1], k=2).ids
    ['m1', 'm2']
    >>> ann.search(text="invoice").ids, bob.search(text="lunch").ids
    (['m1'], [])
    >>> sorted(mail.groups())
    [('ann', 2), ('bob', 1)]
    """

    _native: NativeGroups
    _path: Path | None

    def __init__(self) -> None:
        """Refuse: a collection is created or opened."""
        raise TypeError("use GroupCollection.create or GroupCollection.open")

    @classmethod
    def create(
        cls,
        dimension: int,
        metric: str = "l2",
        element: str = "f32",
        path: str | os.PathLike[str] | None = None,
        durability: str = "sync",
        memory: int | None = None,
        cache: int | None = None,
        id: str = "u64",
        attributes: Mapping[str, str] | None = None,
    ) -> Self:
        """Make an empty collection of groups.

        Parameters
        ----------
        dimension, metric, element
            As in `Collection.create`; under `cosine` the element is one of the floats.
        path
            A directory to keep the rows in, which must not hold a collection yet. Without a path
            everything stays in memory.
        durability
            When a write to a collection with a `path` survives a crash. `sync`: when the call has
            returned; it waits for the disk, so write many rows per call. `async`: at most 100 ms
            later. `none`: after the next `commit` or `close`. The latter two need `path`.
        memory
            Bytes of memory for new rows, before they are written as a file; 64 MiB if left out.
        cache
            Bytes of memory for what was read from files; 64 MiB if left out.
        id
            `u64` for whole numbers, `string` for texts of up to 512 bytes. An id is one row of its
            group; other groups may have the same id.
        attributes
            Types by the names of the attributes: `keyword`, `keywords`, `i64`, `f64`, `bool`,
            `timestamp`, and `text`, which is searched by its words. Each may be missing in a row.
            Names as in `Collection.create`.

        Raises
        ------
        InvalidInput
            If an argument is out of range, or `path` holds something already.
        Unavailable
            If the directory is in use.
        StorageError
            If the directory cannot be written.
        """
        place = None if path is None else _arguments.path(path)
        chosen = _arguments.durability(durability, place)
        native = _native.Groups.create(
            _arguments.integer("dimension", dimension),
            (
                _arguments.name("metric", metric),
                _arguments.name("element", element),
                schema(id, attributes, is_open=False, groups="isolated"),
            ),
            None if place is None else (place, chosen),
            _sizes(memory, cache),
        )
        return cls._wrap(native, place)

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Return whether a directory holds a collection of groups, which `open` would open.

        Examples
        --------
        >>> vstream.GroupCollection.exists(directory / "nothing")
        False
        """
        return _native.Groups.exists(_arguments.path(path))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        durability: str = "sync",
        memory: int | None = None,
        cache: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Self:
        """Open the directory of a collection that was created with `path`.

        It has every row that was promised, whatever happened to the process. Cost: reads the ends
        of the files, and the log of the rows that are in no file yet.

        Parameters
        ----------
        path
            The directory.
        durability, memory, cache
            As in `create`, until the collection is closed.
        attributes
            Attributes to add, which no row has yet; those that are there may be among them.

        Raises
        ------
        InvalidInput
            If there is no collection of groups, or an attribute is there with another type.
        Unavailable
            If it is open already, here or in another process.
        CorruptData
            If any byte that is read differs from what was written.

        Examples
        --------
        >>> with vstream.GroupCollection.create(dimension=1, path=directory / "mail") as mail:
        ...     mail.group("ann").upsert([1, 2], [[1], [2]])
        2
        >>> with vstream.GroupCollection.open(directory / "mail") as mail:
        ...     print(mail.group("ann").count())
        2
        """
        place = _arguments.path(path)
        chosen = _arguments.name("durability", durability)
        more = kinds(attributes)
        if not more.keys().isdisjoint(ROW_COLUMNS):
            with cls.open(path, durability, memory, cache) as there:
                check_new(more, there.attributes)
        native = _native.Groups.open(place, chosen, _sizes(memory, cache), list(more.items()))
        return cls._wrap(native, place)

    def group(self, name: str) -> Group:
        """Return one group, which need not have rows yet. Cost: nothing.

        Examples
        --------
        >>> mail = vstream.GroupCollection.create(dimension=1)
        >>> len(mail.group("nobody"))
        0
        """
        return Group(self, self._native.group(_arguments.name("the name of a group", name)))

    def groups(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each group that has rows, and their number, in an order that stays.

        Groups that come or go meanwhile may or may not be among them. Cost: a page of 1000 groups
        at a time, whose heads are read.
        """
        after: str | None = None
        while True:
            page = self._native.groups(after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def search(self, *_args: object, **_named: object) -> NoReturn:
        """Refuse: groups are isolated, so a search names one."""
        raise InvalidInput(
            "groups are isolated: search one, as in collection.group('ann').search(...); choose "
            "groups='shared' to search over all"
        )

    def commit(self) -> None:
        """Make every write so far durable, whatever the collection's durability."""
        self._native.commit()

    def flush(self) -> None:
        """Write the new rows in memory to the disk as a file. It happens by itself as well."""
        self._native.flush()

    def stats(self) -> GroupStats:
        """Count rows, files and bytes. Cost: little; waits for writers.

        Examples
        --------
        >>> mail = vstream.GroupCollection.create(dimension=1)
        >>> mail.group("ann").upsert(1, [1])
        1
        >>> mail.stats().new_rows
        1
        """
        return GroupStats(**self._native.stats())

    def close(self) -> None:
        """Commit, wait for a merge that is under way, and give the directory back.

        Closing twice is no error. If the commit fails, the collection stays open.
        """
        if not self.closed:
            self._native.close()
            self._native = cast("NativeGroups", _ClosedGroups())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return isinstance(self._native, _ClosedGroups)

    @property
    def attributes(self) -> dict[str, str]:
        """Types by the names of the attributes."""
        return self._native.attributes

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
    def id(self) -> str:
        """Kind of the ids: `u64` or `string`."""
        return self._native.id

    @property
    def path(self) -> Path | None:
        """The directory of a persistent collection."""
        return self._path

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
        """Return its settings, for display."""
        if self.closed:
            return "GroupCollection(closed)"
        place = "" if self._path is None else f", path={str(self._path)!r}"
        return (
            f"GroupCollection(dimension={self.dimension}, metric={self.metric!r}, "
            f"element={self.element!r}{place})"
        )

    @classmethod
    def _wrap(cls, native: NativeGroups, path: str | None) -> Self:
        made = cls.__new__(cls)
        made._native = native
        made._path = None if path is None else Path(path)
        return made


class Group(Writes, RowReads):
    """One group of a `GroupCollection`: `GroupCollection.group` gives it.

    `upsert`, `update`, `delete`, `get`, `scroll` and `count` are those of `Collection`, and see
    this group alone. `len()` is the number of its rows; it reads what `count` reads. A write
    without a `version` has the time as its version, in nanoseconds since 1970: give versions to all
    writes of a group, or to none.
    """

    _native: NativeGroup

    def __init__(self, collection: GroupCollection, native: NativeGroup) -> None:
        """Wrap a group; use `GroupCollection.group`."""
        # A collection lives as long as one of its groups.
        self._collection = collection
        self._native = native

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._native.name

    @property
    def collection(self) -> GroupCollection:
        """The collection of all groups."""
        return self._collection

    @property
    def attributes(self) -> dict[str, str]:
        """Types by the names of the attributes."""
        return self._native.attributes

    @property
    def metric(self) -> str:
        """Name of the distance."""
        return self._collection.metric

    def search(
        self,
        query: ArrayLike | None = None,
        k: int = 10,
        *,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        text: str | None = None,
        match: str | int = "any",
        optional_text: bool = False,
        language: str | None = None,
        rank: str | None = None,
        rank_parameters: Mapping[str, float] | None = None,
        now: datetime | None = None,
        radius: float | None = None,
        with_: Sequence[str] | None = None,
        diversify: tuple[str, int] | None = None,
        group_by: tuple[str, int] | None = None,
    ) -> Answer:
        """Find the best rows of the group, exactly.

        With a `query` alone these are the nearest; with a `text` alone those of the greatest BM25
        score; with both, the two orders are fused by the places of the rows in them; with `rank`
        those for which it is greatest.

        Parameters
        ----------
        query
            A vector, as in `Collection.search`.
        k
            Rows wanted, 1 to 1000.
        where, parameters
            Only rows for which a condition holds, as in `Collection.search`.
        text
            Words, `"phrases"`, and beginnings of words (`inv*`) in attributes of type `text`;
            `subject:word` in one of them; `+word` must be there, `-word` must not.
        match
            How many of the words without a sign must be there: `any`, `all` or a number.
        optional_text
            Whether rows without the words may be in the answer: then the words count for the order
            alone.
        language
            Compare words by their stems in this language, such as `english`.
        rank
            An expression, such as `"closeness + 0.2 * bm25(subject) + freshness(sent)"`: of
            `closeness`, `distance`, `bm25`, `bm25(name)`, `attribute(name)`, `freshness(name)`,
            `has(name)`, `$parameters`, numbers, operators and functions.
        rank_parameters
            Values of its parameters, by their names without `$`.
        now
            The moment for `freshness`; the present one if it is left out.
        radius
            Only rows up to this distance of `query`.
        with_
            What the answer carries beside ids and distances: names of attributes, and `payload`.
        diversify, group_by
            As in `Collection.search`.

        Returns
        -------
        Answer
            Unpacks to ids and distances, best first, ties by id; with `scores` if there is a text
            or a rank.

        Examples
        --------
        >>> mail = vstream.GroupCollection.create(
        ...     dimension=1, attributes={"subject": "text", "stars": "i64"}
        ... )
        >>> ann = mail.group("ann")
        >>> subjects = ["Your invoice", "Invoice overdue", "Lunch"]
        >>> carried = {"subject": subjects, "stars": [0, 5, 1]}
        >>> ann.upsert([1, 2, 3], [[1], [2], [3]], attributes=carried)
        3
        >>> ann.search(text="invoice -overdue").ids.tolist()
        [1]
        >>> rank = "closeness + $w * attribute(stars)"
        >>> ann.search([3], rank=rank, rank_parameters={"w": 1}).ids.tolist()
        [2, 3, 1]
        """
        given: NativeQuery = {
            "k": _arguments.integer("k", k),
            "filter": native_filter(where, parameters),
            "radius": None if radius is None else _arguments.real("radius", radius),
            "text": _text(text, match, language, is_optional=optional_text),
            "rank": _rank(rank, rank_parameters),
            "now": None if now is None else _millis(now),
            "spread": spread(diversify, group_by),
        }
        vector = None
        if query is not None:
            vector = _arguments.vector("the query", query, many="search for each of them")
        names = None if with_ is None else wanted(with_)
        return answer(self._native.search(vector, given, names))

    def drop(self) -> None:
        """Remove all rows of the group at once. Cost: one record; merges free the space.

        Examples
        --------
        >>> mail = vstream.GroupCollection.create(dimension=1)
        >>> ann = mail.group("ann")
        >>> ann.upsert([1, 2], [[1], [2]])
        2
        >>> ann.drop()
        >>> ann.count()
        0
        """
        self._native.drop()

    def __len__(self) -> int:
        """Return the number of rows. Cost: that of `count`."""
        return len(self._native)

    def __bool__(self) -> bool:
        """Return True, also if the group has no rows."""
        return True

    def __repr__(self) -> str:
        """Return its name, for display."""
        return f"Group({self.name!r})"


class _ClosedGroups:
    """Stands in for the store of a closed collection."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Closed("the collection is closed: open it again")


def _sizes(memory: int | None, cache: int | None) -> tuple[int | None, int | None]:
    return (
        None if memory is None else _arguments.integer("memory", memory),
        None if cache is None else _arguments.integer("cache", cache),
    )


def _text(
    text: str | None, match: str | int, language: str | None, *, is_optional: object
) -> tuple[str, int, bool, str | None] | None:
    """Return words and how they are matched, for the native half."""
    if type(is_optional) is not bool:
        raise InvalidInput(f"optional_text is {is_optional!r}: pass True or False")
    if text is None:
        if language is not None or is_optional or match != "any":
            raise InvalidInput("match, optional_text and language go with words: pass text")
        return None
    if isinstance(match, str):
        if match not in _LEAST:
            raise InvalidInput(f"match is {match!r}: pass 'any', 'all' or a number of words")
        least = _LEAST[match]
    else:
        least = _arguments.integer("match", match)
    words = _arguments.name("text", text)
    named = None if language is None else _arguments.name("language", language)
    return words, least, not is_optional, named


def _rank(
    rank: str | None, parameters: Mapping[str, float] | None
) -> tuple[str, list[tuple[str, float]]] | None:
    """Return an expression and the values of its parameters, for the native half."""
    if rank is None:
        if parameters:
            raise InvalidInput("there are rank_parameters and no expression: pass rank")
        return None
    given = {} if parameters is None else parameters
    if not hasattr(given, "items"):
        raise InvalidInput("rank_parameters: pass a dictionary from names to numbers")
    values = [
        (_arguments.name("a parameter", name), _arguments.real(f"${name}", value))
        for name, value in given.items()
    ]
    return _arguments.name("rank", rank), values


def _millis(now: datetime) -> int:
    """Return a moment in milliseconds since 1970; one without a zone is of UTC."""
    if not isinstance(now, datetime):
        raise InvalidInput(f"now is a {type(now).__name__}: pass a datetime")
    try:
        zoned = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"now is no datetime in the years 1 to 9999: {error}") from None
