"""How rows get into a collection, change and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vstream import _arguments, _columns, _tables
from vstream.errors import InvalidInput
from vstream.filters import native_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from vstream._native import Collection as NativeCollection
    from vstream._native import Group as NativeGroup
    from vstream.filters import Where

    Id = int | str
    IdSequence = Sequence[int] | Sequence[str] | NDArray[np.integer]
    Version = int | Sequence[int] | NDArray[np.integer]


class Writes:
    """The writing methods of a collection."""

    _native: NativeCollection | NativeGroup

    def upsert(
        self,
        ids: Id | IdSequence | object,
        vectors: ArrayLike | None = None,
        attributes: Mapping[str, Any] | None = None,
        payload: object = None,
        *,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        progress: Callable[[int, int], None] | None = None,
        group: str | Sequence[str] | None = None,
        version: Version | None = None,
    ) -> int:
        """Add rows, or replace those with the same ids; later searches see them.

        A row is replaced whole: attributes that are not given are gone. All arguments are checked
        before the first change. If an id comes twice, its last row stays. A large matrix is written
        in stretches: other writers get their turn, searches see the rows arrive, and Ctrl-C between
        two stretches keeps what was written.

        Parameters
        ----------
        ids
            One id, or one per vector. Or, alone, a table with the columns `id` and `vector`, with
            attributes as further columns, and `payload` if there is one: of Arrow, pandas, polars,
            or a dictionary of columns.
        vectors
            One vector, or a matrix with a vector per row. Values are finite, such as the element
            takes, and not all zero under `cosine`.
        attributes
            Values by name: one value, or one per row; None for no value. A `timestamp` takes a
            `datetime`, a `datetime64`, RFC 3339 text, or milliseconds since 1970 as a whole number,
            in the years 1 to 9999.
        payload
            Opaque data beside the row, up to 1 MiB, given back by `get` and `with_`: bytes, text,
            or anything that JSON has; one, or one per row.
        where
            Replace a row only if this holds for the row that is there, as it was before the call;
            rows that are not there are added.
        parameters
            Values of the parameters of `where`, if that is an SQL condition.
        progress
            Called with the number of rows written and of all rows, every some thousand rows.
        group
            In a collection of shared groups, the group of all these rows or one per row, unless
            it is among the attributes.
        version
            One for all rows, or one per row, from 0 to 2**63 - 1, such as the time of an event: a
            row that is there with a higher version stays. Without it the rows replace any other.

        Returns
        -------
        int
            Rows that were written: all, unless `where` or `version` kept some.

        Raises
        ------
        InvalidInput
            If anything does not fit. Nothing is changed then.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=2, attributes={"stock": "i64"})
        >>> c.upsert(1, [0.5, 0.5], attributes={"stock": 3})
        1
        >>> c.upsert([1, 2], [[0, 1], [1, 0]], attributes={"stock": [4, None]})
        2
        >>> len(c)
        2
        """
        if vectors is None and _tables.is_table(ids):
            table = _tables.read(ids)
            return self.upsert(
                table.ids,
                table.vectors,
                table.attributes,
                table.payload,
                where=where,
                parameters=parameters,
                progress=progress,
                group=group,
                version=version,
            )
        condition = native_filter(where, parameters)
        one = _arguments.one_id(ids)
        if one is not None:
            vector = _arguments.vector("the vector", vectors, many="upsert with a list of ids")
            given = self._grouped(_columns.one_row(attributes), group, 1)
            fields = self._fields(given, _one(payload), 1)
            versions = _arguments.versions(version, 1)
            if fields is None and condition is None and versions is None and isinstance(one, int):
                return int(self._native.upsert_one(one, vector))
            many, matrix = _arguments.many_ids([one]), vector.reshape(1, -1)
            return self._native.upsert_many(many, matrix, fields, (condition, None, versions))
        rows = _arguments.matrix("the vectors", vectors)
        many = _arguments.many_ids(ids)
        given = self._grouped(attributes, group, len(many))
        fields = self._fields(given, payload, len(many))
        how = (condition, progress, _arguments.versions(version, len(many)))
        return self._native.upsert_many(many, rows, fields, how)

    def update(
        self,
        ids: Id | IdSequence,
        attributes: Mapping[str, Any] | None = None,
        payload: object = None,
        *,
        version: Version | None = None,
    ) -> int:
        """Change attributes or payload of rows and keep the rest, the vector above all.

        Costs much less than an upsert: nothing is indexed anew.

        Parameters
        ----------
        ids
            One id, or several.
        attributes
            Values by name, one or one per id; None removes the value. Others stay as they are.
        payload
            One, or one per id; stays as it is if left out.
        version
            As for `upsert`: a row with a higher version stays as it is.

        Returns
        -------
        int
            Rows that were there and not newer. An id that does not exist is no error.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1, attributes={"stock": "i64"})
        >>> c.upsert([1, 2], [[1], [2]], attributes={"stock": [3, 4]})
        2
        >>> c.update([1, 99], attributes={"stock": [0, 0]})
        1
        >>> c.search([2], where={"stock": {"$gt": 0}}).ids.tolist()
        [2]
        """
        one = _arguments.one_id(ids)
        if one is None:
            many = _arguments.many_ids(ids)
            fields = self._fields(attributes, payload, len(many))
        else:
            many = _arguments.many_ids([one])
            fields = self._fields(_columns.one_row(attributes), _one(payload), 1)
        if fields is None:
            raise InvalidInput("there is nothing to change: pass attributes or payload")
        return self._native.update(many, fields, _arguments.versions(version, len(many)))

    def delete(
        self,
        ids: Id | IdSequence | None = None,
        *,
        where: Where | None = None,
        parameters: Sequence[object] | None = None,
        group: str | None = None,
        version: Version | None = None,
    ) -> int:
        """Remove the rows of some ids, or all rows for which a condition holds.

        An id that does not exist is no error. In a collection of shared groups `group` stands for
        the rows of a group, those for which `where` holds if it is there too.

        Parameters
        ----------
        ids
            One id, or several.
        where
            In place of ids: a condition.
        parameters
            Values of the parameters of `where`, if that is an SQL condition.
        version
            One for all ids, or one per id; one alone with `where`. A row with a higher version
            stays. Without it rows go whatever their version, and a later upsert without a version
            adds the id again, also where deletes are remembered.

        Returns
        -------
        int
            Rows that were removed.

        Examples
        --------
        >>> c = vstream.Collection.create(dimension=1)
        >>> c.upsert([1, 2, 3], [[1], [2], [3]])
        3
        >>> c.delete([1, 2, 99])
        2
        """
        condition = native_filter(where, parameters, group)
        if (ids is None) == (condition is None):
            raise InvalidInput("pass either ids or where, or a group")
        if condition is not None:
            alone = None if version is None else _arguments.integer("version", version)
            return self._native.delete_where(condition, alone)
        one = _arguments.one_id(ids)
        many = _arguments.many_ids(ids if one is None else [one])
        return self._native.delete(many, _arguments.versions(version, len(many)))

    def _grouped(
        self, attributes: Mapping[str, Any] | None, group: str | Sequence[str] | None, rows: int
    ) -> Mapping[str, Any] | None:
        """Return attributes with the group of rows that share an index with others."""
        if group is None:
            return attributes
        if self._native.groups != "shared":
            message = "leave group out, or create the collection with groups='shared'"
            raise InvalidInput(f"the rows have no shared groups: {message}")
        if attributes is not None and "group" in attributes:
            raise InvalidInput("the group is given twice: pass group or the attribute")
        named = [group] * rows if isinstance(group, str) else group
        return {**(attributes or {}), "group": named}

    def _fields(
        self, attributes: object, payload: object, rows: int
    ) -> tuple[list[_columns.Column], list[bytes | None] | None] | None:
        """Return columns and payloads for the native half; None if there are none."""
        if attributes is None and payload is None:
            return None
        known, is_open = self._native.attributes, self._native.open_attributes
        columns = _columns.columns(attributes, rows, known, is_open=is_open)
        return columns, _columns.payloads(payload, rows)


def _one(payload: object) -> list[object] | None:
    return None if payload is None else [payload]
