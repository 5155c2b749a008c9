"""How rows are found in a collection and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vstream import _arguments, _moments, _tables
from vstream.errors import InvalidInput
from vstream.filters import native_filter
from vstream.rows import Answer, AnswerGroup, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from vstream._native import Collection as NativeCollection
    from vstream._native import Group as NativeGroup
    from vstream._native import _Found as Found
    from vstream.filters import Where
    from vstream.rows import Ids

    Id = int | str
    IdSequence = Sequence[int] | Sequence[str] | NDArray[np.integer]


class RowReads:
    """The methods that read rows, of a collection and of a group."""

    _native: NativeCollection | NativeGroup

    def get(
        self,
        ids: Id | IdSequence,
        with_: Sequence[str] | None = None,
        *,
        vectors: bool = False,
    ) -> Rows:
        """Return the rows of some ids, in the order of the ids; unknown ids are left out.

        Parameters
        ----------
        ids
            One id, or several.
        with_
            Names of attributes, and `payload`; everything if it is left out.
        vectors
            Whether to return the vectors. Under `cosine` they are the stored directions.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1, attributes={"color": "keyword"})
        >>> c.upsert(1, [1], attributes={"color": "red"}, payload={"title": "a ball"})
        1
        >>> next(iter(c.get(1)))
        {'id': 1, 'color': 'red', 'payload': b'{"title":"a ball"}'}
        """
        one = _arguments.one_id(ids)
        many = _arguments.many_ids(ids if one is None else [one])
        found = self._native.get(many, wanted(with_), vectors)
        return _rows(found)

    def scroll(
        self,
        where: Where | None = None,
        limit: int = 1000,
        after: Id | None = None,
        with_: Sequence[str] | None = None,
        *,
        parameters: Sequence[object] | None = None,
        vectors: bool = False,
        group: str | None = None,
    ) -> tuple[Rows, Id | None]:
        """Return rows for which a condition holds, in the order of their ids, page by page.

        Parameters
        ----------
        where, parameters
            The condition; every row if it is left out.
        limit
            Most rows of the page, 1 to 10,000.
        after
            Where the page before ended, as it was returned; None for the first page.
        with_, vectors
            As in `get`.
        group
            Rows of this group alone, in a collection of shared groups.

        Returns
        -------
        rows, after
            The page, and where it ended: pass it to get the next one. None if this is the last.
            Texts as ids come in the order of their hashes.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([3, 1, 2], [[1], [2], [3]])
        3
        >>> rows, after = c.scroll(limit=2)
        >>> rows.ids.tolist(), c.scroll(after=after)[0].ids.tolist()
        ([1, 2], [3])
        """
        found, end = self._native.scroll(
            native_filter(where, parameters, group),
            (_arguments.integer("limit", limit), _arguments.page_end(after)),
            wanted(with_),
            vectors,
        )
        return _rows(found), end

    def count(
        self,
        where: Where | None = None,
        *,
        parameters: Sequence[object] | None = None,
        group: str | None = None,
    ) -> int:
        """Count the rows for which a condition holds, or those of a shared group; or all rows.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1, attributes={"price": "f64"})
        >>> c.upsert([1, 2], [[1], [2]], attributes={"price": [1.0, 5.0]})
        2
        >>> c.count("price < ?", parameters=[3])
        1
        """
        condition = native_filter(where, parameters, group)
        return len(self._native) if condition is None else self._native.count(condition)


class Reads(RowReads):
    """The searching and reading methods of a collection."""

    _native: NativeCollection

    def search(
        self,
        query: ArrayLike,
        k: int = 10,
        recall_target: float | None = None,
        probes: int | None = None,
        refine: int | None = None,
        exact: bool = False,  # noqa: FBT001, FBT002 - reads well by name, and is the last one.
        *,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        with_: Sequence[str] | None = None,
        radius: float | None = None,
        group: str | None = None,
        diversify: tuple[str, int] | None = None,
        group_by: tuple[str, int] | None = None,
    ) -> Answer:
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
            The nearest of all rows, for certain.
        where
            Only rows for which this holds. A dictionary such as `{"color": "red", "price": {"$gte":
            3}}`; Qdrant's form with `must`, `should`, `must_not`; or an SQL condition such as
            `"color = 'red' and price >= ?"`. The recall target holds among these rows.
        parameters
            Values of the parameters `?` of an SQL condition.
        with_
            What the answer carries beside ids and distances: names of attributes, and `payload`.
        radius
            Only rows up to this distance.
        group
            Only rows of this group, in a collection of shared groups.
        diversify
            Name of an attribute and a number: at most so many rows of the answer have the same
            value of it. Rows without a value share the missing one. The search goes on until the
            answer is full or there are no more rows.
        group_by
            As `diversify`, but the answer is grouped: it has the `k` values whose nearest rows
            are nearest, each with its nearest rows. `k` times the number is at most 1000.

        Returns
        -------
        Answer
            Unpacks to ids and distances, nearest first, ties by id. They are shorter than `k` if
            fewer rows match (or, with `probes`, fewer were reached).

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1, attributes={"color": "keyword"})
        >>> colors = ["red", "blue", "red"]
        >>> c.upsert([10, 20, 30], [[1], [2], [3]], attributes={"color": colors})
        3
        >>> ids, distances = c.search([2.1], k=2)
        >>> ids.tolist()
        [20, 30]
        >>> c.search([2.1], where={"color": "red"}).ids.tolist()
        [30, 10]
        >>> c.search([2.9], diversify=("color", 1)).ids.tolist()
        [30, 20]
        >>> found = c.search([2.9], group_by=("color", 2))
        >>> [(group.value, group.ids) for group in found.groups]
        [('red', [30, 10]), ('blue', [20])]
        """
        found = self._native.search(
            _arguments.vector("the query", query, many="search_batch"),
            (_arguments.integer("k", k), _effort(recall_target, probes, refine, exact)),
            (
                native_filter(where, parameters, group),
                None if radius is None else _arguments.real("radius", radius),
                spread(diversify, group_by),
            ),
            None if with_ is None else wanted(with_),
        )
        return answer(found)

    def search_batch(
        self,
        queries: ArrayLike,
        k: int = 10,
        recall_target: float | None = None,
        probes: int | None = None,
        refine: int | None = None,
        exact: bool = False,  # noqa: FBT001, FBT002 - as in search.
        *,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        group: str | None = None,
    ) -> tuple[NDArray[np.int64] | list[list[str | None]], NDArray[np.float32]]:
        """Find the nearest rows of several queries, one after the other on this thread.

        Parameters are those of `search`, but `queries` is a matrix with a query per row.

        Returns
        -------
        ids, distances
            Matrices with a row per query and `k` columns. Where fewer than `k` rows were found
            the rest is filled with the id -1 at distance infinity. Ids that are texts come as a
            list per query, filled with None.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([10, 20], [[1], [2]])
        2
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
            native_filter(where, parameters, group),
        )

    def search_radius(
        self,
        query: ArrayLike,
        radius: float,
        *,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        group: str | None = None,
    ) -> tuple[Ids, NDArray[np.float32]]:
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
        3
        >>> ids, distances = c.search_radius([1.5], radius=0.25)
        >>> ids.tolist(), distances.tolist()
        ([10, 20], [0.25, 0.25])
        """
        return self._native.search_radius(
            _arguments.vector("the query", query, many="search_batch"),
            _arguments.real("radius", radius),
            native_filter(where, parameters, group),
        )


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


def wanted(with_: Sequence[str] | None) -> tuple[list[str] | None, bool]:
    """Return names of attributes, None for all of them, and whether the payload is wanted."""
    if with_ is None:
        return None, True
    if isinstance(with_, str):
        raise InvalidInput(f"with_ is {with_!r}: pass a list of names")
    names = [_arguments.name("a name in with_", name) for name in with_]
    return [name for name in names if name != _tables.PAYLOAD], _tables.PAYLOAD in names


def spread(
    diversify: tuple[str, int] | None, group_by: tuple[str, int] | None
) -> tuple[str, int, bool] | None:
    """Return how an answer is spread: attribute, rows per value, and what `k` counts."""
    if diversify is not None and group_by is not None:
        raise InvalidInput("diversify and group_by exclude each other: pass one of them")
    what, given = ("diversify", diversify) if group_by is None else ("group_by", group_by)
    if given is None:
        return None
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        message = "pass the name of an attribute and a number of rows"
        raise InvalidInput(f"{what} is {given!r}: {message}")
    name, rows = given
    attribute = _arguments.name(f"the attribute of {what}", name)
    return attribute, _arguments.integer(f"the number of {what}", rows), group_by is not None


def answer(found: Found) -> Answer:
    """Return what the native half found."""
    ids, distances, columns, payload, scores, values = found
    made = Answer(ids, distances, _readable(columns), payload)
    made.scores = scores
    if values is not None:
        kind, counts = values
        made.groups, at = [], 0
        for value, rows in counts:
            shown = _moments.shown(value) if kind == "timestamp" else value
            made.groups.append(AnswerGroup(shown, made, range(at, at + rows)))
            at += rows
    return made


def _readable(columns: list[tuple[str, str, list[Any]]]) -> dict[str, list[Any]]:
    """Return values by name, with moments as Python has them."""
    return {
        name: [_moments.shown(value) for value in values] if kind == "timestamp" else values
        for name, kind, values in columns
    }


def _rows(found: tuple[Any, list[tuple[str, str, list[Any]]], Any, Any]) -> Rows:
    ids, columns, payload, vectors = found
    return Rows(ids, _readable(columns), payload, vectors)
