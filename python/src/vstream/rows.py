"""Rows as answers give them: ids, distances, and what was asked for beside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from vstream import _moments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

# Whole numbers in an array, or texts.
Ids: TypeAlias = "NDArray[np.int64] | list[str]"


class Answer(tuple[Any, Any]):
    """The answer of a search: unpacks to ids and distances, nearest first.

    Beside them it has what `with_` asked for: `attributes`, a list of values per name, and
    `payload`, the bytes of each row. A ranked answer, of a group, has `scores`, and stands in their
    order; its distances are NaN if the query had no vector. With `group_by` it has `groups`.

    A `timestamp` comes as a `datetime`; where another writer than Python gave one beyond the years
    1 to 9999, as a `numpy.datetime64` of milliseconds.

    Examples
    --------
    >>> c = vstream.Collection.create(dimension=1, attributes={"price": "f64"})
    >>> c.upsert([1, 2], [[1], [2]], attributes={"price": [9.5, None]})
    2
    >>> found = c.search([0], k=2, with_=["price"])
    >>> ids, distances = found
    >>> ids.tolist(), found.attributes
    ([1, 2], {'price': [9.5, None]})
    """

    attributes: Mapping[str, list[Any]]
    payload: list[bytes | None] | None
    scores: NDArray[np.float64] | None
    groups: list[AnswerGroup] | None

    def __new__(
        cls,
        ids: Ids,
        distances: NDArray[np.float32],
        attributes: Mapping[str, list[Any]] | None = None,
        payload: list[bytes | None] | None = None,
    ) -> Self:
        """Make an answer."""
        made = super().__new__(cls, (ids, distances))
        made.attributes = attributes or {}
        made.payload = payload
        made.scores = None
        made.groups = None
        return made

    def __getnewargs__(self) -> tuple[Ids, NDArray[np.float32]]:
        """Return what a copy is made of; its `__dict__` brings the rest.

        That of a tuple is one argument, which `__new__` does not take.
        """
        return self[0], self[1]

    @property
    def ids(self) -> Ids:
        """Ids, nearest first."""
        ids: Ids = self[0]
        return ids

    @property
    def distances(self) -> NDArray[np.float32]:
        """Distances, ascending."""
        distances: NDArray[np.float32] = self[1]
        return distances

    def json(self) -> list[Any]:
        """Return the payload of each row, read as JSON; None for a row without one."""
        return _read_json(self.payload)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary per row: `id`, `distance`, `score`, attributes by name, `payload`."""
        yield from _rows(self.columns())

    def columns(self) -> dict[str, Any]:
        """Return the columns by name: `id`, `distance`, `score`, attributes, `payload`.

        An attribute with the name of one of these is in `attributes` alone.
        """
        more: dict[str, Any] = {"distance": self.distances}
        if self.scores is not None:
            more["score"] = self.scores
        return _columns(self.ids, more, self.attributes, self.payload)

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table; needs pyarrow."""
        return _to_arrow(self.columns())

    def to_pandas(self) -> pd.DataFrame:
        """Return the columns as a pandas frame; needs pandas."""
        return _to_pandas(self.columns())

    def to_polars(self) -> pl.DataFrame:
        """Return the columns as a polars frame; needs polars."""
        return _to_polars(self.columns())


class AnswerGroup:
    """The rows of an answer that have one value of an attribute.

    Attributes
    ----------
    value
        The value; None for rows without one.
    places
        Where the rows stand in the answer.
    """

    __slots__ = ("_answer", "places", "value")

    def __init__(self, value: object, answer: Answer, places: range) -> None:
        """Make a group."""
        self.value: Any = value
        self.places = places
        self._answer = answer

    @property
    def ids(self) -> list[int] | list[str]:
        """Ids of its rows, best first."""
        part = self._answer.ids[self.places.start : self.places.stop]
        return part if isinstance(part, list) else part.tolist()

    @property
    def distances(self) -> NDArray[np.float32]:
        """Distances of its rows."""
        return self._answer.distances[self.places.start : self.places.stop]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary per row, as `Answer.rows` does."""
        for place, row in enumerate(self._answer.rows()):
            if place in self.places:
                yield row

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.places)

    def __repr__(self) -> str:
        """Return value and number of rows, for display."""
        return f"AnswerGroup({self.value!r}, {len(self)} rows)"


class Rows:
    """Some rows of a collection, as `get` and `scroll` return them.

    Attributes
    ----------
    ids
        Ids of the rows.
    attributes
        Values by the name of the attribute, one per row; None where a row has none. A `timestamp`
        is a `datetime`, or a `numpy.datetime64`, as in `Answer`.
    payload
        Bytes of each row, if they were asked for.
    vectors
        A matrix with a vector per row, if vectors were asked for.
    """

    __slots__ = ("attributes", "ids", "payload", "vectors")

    def __init__(
        self,
        ids: Ids,
        attributes: Mapping[str, list[Any]],
        payload: list[bytes | None] | None,
        vectors: NDArray[np.float32] | None,
    ) -> None:
        """Make rows."""
        self.ids = ids
        self.attributes = attributes
        self.payload = payload
        self.vectors = vectors

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ids)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield a dictionary per row: `id`, attributes by name, `payload` and `vector` if asked."""
        return _rows(self.columns())

    def __repr__(self) -> str:
        """Return the number of rows and their attributes, for display."""
        return f"Rows({len(self)} rows, attributes={list(self.attributes)})"

    def json(self) -> list[Any]:
        """Return the payload of each row, read as JSON; None for a row without one."""
        return _read_json(self.payload)

    def columns(self) -> dict[str, Any]:
        """Return the columns by name: `id`, attributes, `payload` and `vector` if asked for.

        An attribute with the name of one of these is in `attributes` alone.
        """
        more = {} if self.vectors is None else {"vector": self.vectors}
        return _columns(self.ids, more, self.attributes, self.payload)

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table; needs pyarrow."""
        return _to_arrow(self.columns())

    def to_pandas(self) -> pd.DataFrame:
        """Return the columns as a pandas frame; needs pandas."""
        return _to_pandas(self.columns())

    def to_polars(self) -> pl.DataFrame:
        """Return the columns as a polars frame; needs polars."""
        return _to_polars(self.columns())


def _columns(
    ids: Ids,
    more: Mapping[str, object],
    attributes: Mapping[str, list[Any]],
    payload: list[bytes | None] | None,
) -> dict[str, Any]:
    first: dict[str, Any] = {"id": ids, **more}
    last = {} if payload is None else {"payload": payload}
    # A server's or another language's collection may have an attribute with such a name.
    own = first.keys() | last.keys()
    beside = {name: values for name, values in attributes.items() if name not in own}
    return {**first, **beside, **last}


def _rows(columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
        for name, values in columns.items()
    }
    for row in zip(*plain.values(), strict=True):
        yield dict(zip(plain, row, strict=True))


def _read_json(payload: list[bytes | None] | None) -> list[Any]:
    if payload is None:
        raise ValueError("no payload was asked for: pass with_=['payload']")
    return [None if text is None else json.loads(text) for text in payload]


def _lists(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return matrices as lists of their rows, as frames hold them."""
    is_matrix = {name: getattr(values, "ndim", 1) == 2 for name, values in columns.items()}
    return {name: list(values) if is_matrix[name] else values for name, values in columns.items()}


def _far(columns: Mapping[str, Any]) -> list[tuple[str, NDArray[np.datetime64]]]:
    """Return the columns of moments that libraries do not take as a list."""
    arrays = ((name, _moments.far_array(values)) for name, values in columns.items())
    return [(name, array) for name, array in arrays if array is not None]


def _to_arrow(columns: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - an optional library.

    made = _lists(columns)
    for name, far in _far(made):
        made[name] = pa.array(far).cast(pa.timestamp("ms", "UTC"))
    return pa.table(made)


def _to_pandas(columns: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - an optional library.

    made = _lists(columns)
    for name, far in _far(made):
        made[name] = pd.Series(far).dt.tz_localize("UTC")
    return pd.DataFrame(made)


def _to_polars(columns: Mapping[str, Any]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - an optional library.

    made = _lists(columns)
    for name, far in _far(made):
        made[name] = pl.Series(far).dt.replace_time_zone("UTC")
    return pl.DataFrame(made)
