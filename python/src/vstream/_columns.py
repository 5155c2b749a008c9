"""Converts attributes and payloads to the columns that the native half takes.

A column comes as a list, a numpy array, a pandas or polars series or an Arrow array; a row has no
value where it holds `None`, `NaT`, or a masked or null entry. NaN is no value of a number, but an
error: a forgotten division should not look like a missing price.
"""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from vstream import _arguments, _moments
from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

# Numbers with a mask of the rows that have a value, or a list with `None` for those that have none.
Values: TypeAlias = tuple["NDArray[Any]", "NDArray[np.bool_] | None"] | list[Any]
# Name, kind and values.
Column: TypeAlias = tuple[str, str, Values]

_KINDS: list[tuple[tuple[type, ...], str]] = [
    ((bool, np.bool_), "bool"),
    ((int, np.integer), "i64"),
    ((float, np.floating), "f64"),
    ((str,), "keyword"),
    ((datetime.date, np.datetime64), "timestamp"),
    ((list, tuple, set, frozenset, np.ndarray), "keywords"),
]


def columns(
    attributes: object, rows: int, known: Mapping[str, str], *, is_open: bool
) -> list[Column]:
    """Return the columns of a mapping from names to values, `rows` values each.

    A name that is not `known` gets the kind of its first value if the schema `is_open`.
    """
    if attributes is None:
        return []
    if not hasattr(attributes, "items"):
        message = "pass attributes as a dictionary from names to one value per row"
        raise InvalidInput(f"the attributes are a {type(attributes).__name__}: {message}")
    made: list[Column] = []
    for name, given in cast("Mapping[object, object]", attributes).items():
        if not isinstance(name, str):
            raise InvalidInput(f"{name!r} is no name of an attribute: pass a str")
        _arguments.text("the name of an attribute", name)
        values = as_list_or_array(given, f"the attribute '{name}'")
        if len(values) != rows:
            raise InvalidInput(
                f"the attribute '{name}' has {len(values)} values and there are {rows} rows: "
                "pass one value per row"
            )
        kind = known.get(name)
        if kind is None:
            if not is_open:
                there = ", ".join(f"'{one}'" for one in known) or "none"
                raise InvalidInput(
                    f"the collection has no attribute '{name}'; it has {there}: add it with "
                    "add_attribute, or create the collection with open_attributes=True"
                )
            kind = _kind_of(values)
            if kind is None:
                continue
        made.append((name, kind, _values(name, kind, values)))
    return made


def one_row(attributes: object) -> dict[str, list[object]] | None:
    """Return the attributes of one row as columns of one value."""
    if attributes is None:
        return None
    if not hasattr(attributes, "items"):
        message = "pass attributes as a dictionary from names to values"
        raise InvalidInput(f"the attributes are a {type(attributes).__name__}: {message}")
    return {name: [value] for name, value in cast("Mapping[str, object]", attributes).items()}


def payloads(payload: object, rows: int) -> list[bytes | None] | None:
    """Return payloads as bytes: those given as bytes as they are, text as UTF-8, others as JSON."""
    if payload is None:
        return None
    values = as_list_or_array(payload)
    if isinstance(payload, (str, bytes, dict)) or len(values) != rows:
        raise InvalidInput(f"there are {rows} rows: pass one payload per row")
    return [None if value is None else payload_bytes(value) for value in values]


def payload_bytes(value: object) -> bytes:
    """Return one payload as bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return _arguments.text("a payload", value).encode()
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a payload is no bytes, text or JSON value: {error}") from None


def as_list_or_array(values: object, what: str = "a column") -> Sequence[Any] | NDArray[Any]:
    """Return the values of a column of any library as a list or a numpy array."""
    if isinstance(values, (list, tuple, np.ndarray)):
        return values
    if isinstance(values, (str, bytes)):
        raise InvalidInput(f"{values!r} is one value: pass one value per row")
    if type(getattr(values, "dtype", None)).__name__ == "Datetime":
        # A list of polars ends in a panic of Rust where a time is far beyond `datetime`.
        moments: NDArray[Any] = cast("Any", values).to_numpy()
        return moments
    # Arrow arrays, then polars and pandas series.
    for method in ("to_pylist", "to_list", "tolist"):
        convert: Callable[[], list[Any]] | None = getattr(values, method, None)
        if convert is not None:
            try:
                return convert()
            except (ValueError, OverflowError) as error:
                # Times, above all, for which Python has no `datetime`.
                message = f"{error}; moments are {_moments.WANTED}"
                raise InvalidInput(f"{what} cannot be read: {message}") from None
    try:
        return list(values)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        message = f"{what} is a {type(values).__name__}: pass one value per row"
        raise InvalidInput(message) from None


def is_missing(value: object) -> bool:
    """Return whether a value stands for none."""
    # NaT, and pandas' NA, are not equal to themselves either, and are no numbers.
    if value is None or value is np.ma.masked:
        return True
    return type(value).__name__ in ("NaTType", "NAType") or (
        isinstance(value, np.datetime64) and bool(np.isnat(value))
    )


def _kind_of(values: Sequence[Any] | NDArray[Any]) -> str | None:
    """Return the kind of the first value there is; None if every row has none."""
    first = next((value for value in values if not is_missing(value)), None)
    if first is None:
        return None
    # True is an int as well.
    for types, kind in _KINDS:
        if isinstance(first, types):
            return kind
    raise InvalidInput(f"{first!r} is no value of an attribute")


def _values(name: str, kind: str, values: Sequence[Any] | NDArray[Any]) -> Values:
    """Return a column's values in the form of its kind."""
    if kind in ("keyword", "text"):
        return [None if is_missing(value) else _text(name, value) for value in values]
    if kind == "keywords":
        return [None if is_missing(value) else _texts(name, value) for value in values]
    ready = _ready(name, kind, values)
    if ready is not None:
        return ready, None
    mask = np.fromiter((not is_missing(value) for value in values), np.bool_, len(values))
    read = {"i64": _i64, "f64": _f64, "bool": _bool, "timestamp": milliseconds}[kind]
    numbers = [read(name, value) if there else 0 for value, there in zip(values, mask, strict=True)]
    dtype = {"f64": np.float64, "bool": np.bool_}.get(kind, np.int64)
    return np.array(numbers, dtype=dtype), None if mask.all() else mask


def _ready(name: str, kind: str, values: object) -> NDArray[Any] | None:
    """Return an array of numbers that needs no look at each value."""
    if not isinstance(values, np.ndarray) or isinstance(values, np.ma.MaskedArray):
        return None
    made: NDArray[Any] | None = None
    given = values.dtype.kind
    if kind == "bool" and given == "b":
        made = values
    elif kind == "i64" and given == "i":
        made = values.astype(np.int64)
    elif kind == "f64" and given in "fi" and np.isfinite(values).all():
        made = values.astype(np.float64)
    elif kind == "timestamp" and given == "M" and not np.isnat(values).any():
        if not _moments.are_near(values):
            far = next(value for value in values if not _moments.are_near(value))
            raise _refused(name, kind, far)
        made = values.astype("datetime64[ms]").astype(np.int64)
    return None if made is None else np.ascontiguousarray(made)


def _refused(name: str, kind: str, value: object) -> InvalidInput:
    hint = f": pass {_moments.WANTED}" if kind == "timestamp" else ""
    try:
        shown = repr(value)
    except (NotImplementedError, ValueError, OverflowError):
        # A time of pandas with a zone, beyond `datetime`.
        shown = f"a {type(value).__name__}"
    return InvalidInput(f"the attribute '{name}' is of type {kind}, and a value is {shown}{hint}")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refused(name, "keyword", value)
    return value if value.isascii() else _arguments.text(f"the attribute '{name}'", value)


def _texts(name: str, value: object) -> list[str]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise _refused(name, "keywords", value)
    return [_text(name, one) for one in value]


def _i64(name: str, value: object) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise _refused(name, "i64", value)
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise _refused(name, "i64", value)
    return number


def _f64(name: str, value: object) -> float:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not is_number:
        raise _refused(name, "f64", value)
    try:
        number = float(cast("float", value))
    except OverflowError:
        # A whole number beyond all floats.
        number = np.inf
    if not np.isfinite(number):
        raise _refused(name, "f64", value)
    return number


def _bool(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _refused(name, "bool", value)
    return bool(value)


def milliseconds(name: str, value: object) -> int:
    """Return milliseconds since 1970 of a time; one without a zone is UTC."""
    if isinstance(value, (bool, np.bool_)):
        raise _refused(name, "timestamp", value)
    millis: int | None = None
    try:
        if isinstance(value, np.datetime64):
            if _moments.are_near(value):
                millis = int(value.astype("datetime64[ms]").astype(np.int64))
        elif isinstance(value, datetime.datetime):
            moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            millis = (moment - _moments.EPOCH) // _moments.MILLISECOND
        elif isinstance(value, datetime.date):
            millis = (value - _moments.EPOCH.date()).days * 86_400_000
        elif isinstance(value, str):
            return milliseconds(name, datetime.datetime.fromisoformat(value))
        elif isinstance(value, (int, np.integer)):
            millis = int(value)
    except (ValueError, OverflowError):
        # A text that is no time, or a time of pandas that is beyond `datetime`.
        millis = None
    if millis is None or not _moments.FIRST <= millis <= _moments.LAST:
        raise _refused(name, "timestamp", value)
    return millis
