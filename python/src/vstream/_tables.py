"""Takes tables apart: of Arrow, of pandas or polars, or a mapping of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

ID, VECTOR, PAYLOAD = "id", "vector", "payload"


class Table(NamedTuple):
    """The columns of a table."""

    ids: Any
    vectors: Any
    attributes: dict[str, Any]
    payload: Any


def is_table(value: object) -> bool:
    """Return whether `value` is a table and no id or sequence of ids."""
    return hasattr(value, "keys") or hasattr(value, "column_names") or hasattr(value, "columns")


def read(table: object) -> Table:
    """Return the columns `id`, `vector`, `payload`, and all others as attributes."""
    columns = _columns(table)
    for name in (ID, VECTOR):
        if name not in columns:
            there = ", ".join(f"'{one}'" for one in columns)
            raise InvalidInput(f"the table has no column '{name}'; it has {there}")
    ids, vectors = columns.pop(ID), columns.pop(VECTOR)
    payload = columns.pop(PAYLOAD, None)
    return Table(_ids(ids), _matrix(vectors), columns, payload)


def _columns(table: object) -> dict[str, Any]:
    names = getattr(table, "column_names", None)
    if names is not None:
        # Arrow: a table or a batch.
        column = cast("Any", table).column
        return {str(name): column(name) for name in names}
    if hasattr(table, "items") and not hasattr(table, "columns"):
        return dict(cast("Mapping[str, Any]", table).items())
    frame = cast("Any", table)
    return {str(name): frame[name] for name in frame.columns}


def _ids(column: Any) -> Any:
    """Return ids as an array of numbers, or as a list of texts."""
    if isinstance(column, (list, np.ndarray)):
        return column
    convert = getattr(column, "to_pylist", None) or getattr(column, "to_list", None)
    return column if convert is None else convert()


def _all_of(size: int, part: Any) -> bool:
    """Return whether all lists of an Arrow array have so many elements."""
    offsets = getattr(part, "offsets", None)
    if offsets is None:
        # Lists of a fixed size.
        return bool(part.type.list_size == size)
    ends = np.asarray(offsets)
    return len(ends) == len(part) + 1 and bool((np.diff(ends) == size).all())


def _matrix(column: Any) -> Any:
    """Return vectors as a matrix."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column
    chunks = getattr(column, "chunks", None)
    parts = [column] if chunks is None else chunks
    if all(hasattr(part, "flatten") and hasattr(part, "to_pylist") for part in parts) and parts:
        # Arrow lists: their values lie one after the other.
        flat = [np.asarray(part.flatten()) for part in parts]
        rows = sum(len(part) for part in parts)
        values = np.concatenate(flat)
        if rows and not any(part.null_count for part in parts):
            size = values.size // rows
            if all(_all_of(size, part) for part in parts):
                return values.reshape(rows, size)
    if isinstance(column, (list, tuple)):
        return column
    convert = getattr(column, "to_pylist", None) or getattr(column, "to_list", None)
    try:
        return np.stack([np.asarray(vector) for vector in (convert() if convert else column)])
    except (TypeError, ValueError) as error:
        message = "pass lists of the same length, one per row"
        raise InvalidInput(f"the column 'vector' holds no vectors: {message} ({error})") from None
