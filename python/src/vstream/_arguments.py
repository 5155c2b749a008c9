"""Converts arguments to what the native half takes: exact types and packed arrays.

An array that already fits is passed on as it is; any other is converted with one copy. What cannot
be converted raises `InvalidInput`.
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    F32Array = NDArray[np.float32]
    # Halves go to the native half as their bits.
    VectorArray = NDArray[np.float32] | NDArray[np.uint16] | NDArray[np.uint8] | NDArray[np.int8]
    I64Array = NDArray[np.int64]

_F32 = np.dtype(np.float32)
_F16 = np.dtype(np.float16)
_U8 = np.dtype(np.uint8)
_I8 = np.dtype(np.int8)
_I64 = np.dtype(np.int64)
_U64 = np.dtype(np.uint64)

_DURABILITIES = ("sync", "async", "none")

# Answers are int64 arrays in which -1 fills an empty position, so ids must fit into int64.
_ID_MAX = 2**63 - 1


def integer(name: str, value: object) -> int:
    """Return a whole number of any integer type. The engine checks its range."""
    number = _index(name, value)
    if not 0 <= number <= _ID_MAX:
        raise InvalidInput(f"{name} is {number}: choose a positive whole number")
    return number


def signed(name: str, value: object) -> int:
    """Return a whole number of 64 bits, which may be below 0."""
    number = _index(name, value)
    if not -_ID_MAX - 1 <= number <= _ID_MAX:
        raise InvalidInput(f"{name} is {number}: choose a whole number of 64 bits")
    return number


def versions(value: object, rows: int) -> I64Array | None:
    """Return a version per row, of one for all or one for each; None if there are none."""
    if value is None:
        return None
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        return np.full(rows, integer("version", value), dtype=_I64)
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        given = np.empty(0, dtype=object)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size > 0):
        raise InvalidInput("the versions are no whole numbers below 2**63: pass one per row")
    if len(given) != rows:
        raise InvalidInput(f"there are {len(given)} versions for {rows} rows: pass one per row")
    if given.size > 0 and (int(given.min()) < 0 or int(given.max()) > _ID_MAX):
        raise InvalidInput("a version is not in 0 to 2**63 - 1")
    return np.ascontiguousarray(given, dtype=_I64)


def real(name: str, value: object) -> float:
    """Return a number as a float."""
    if isinstance(value, (str, bytes, bool, np.bool_)):
        raise InvalidInput(f"{name} is {value!r}: pass a number")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} is a {type(value).__name__}: pass a number") from None


def text(what: str, value: object) -> str:
    """Return a text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is a {type(value).__name__}: pass a str")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            message = "half of a surrogate pair is no character"
            raise InvalidInput(f"{what} has no UTF-8 at {error.start}: {message}") from None
    return value


def name(what: str, value: object) -> str:
    """Return a name. The engine checks whether it knows the name."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is a {type(value).__name__}: pass its name as a str")
    return text(what, value)


def durability(value: object, place: str | None) -> str:
    """Return when writes to a new collection survive a crash."""
    chosen = name("durability", value)
    if place is None and chosen not in _DURABILITIES:
        raise InvalidInput(f"durability is '{chosen}': choose sync, async or none")
    if place is None and chosen != "sync":
        raise InvalidInput(f"durability is '{chosen}', and there is no directory: give path too")
    return chosen


def path(value: object) -> str:
    """Return a path of the file system as text."""
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        raise InvalidInput(f"the path is a {type(value).__name__}: pass a str or Path") from None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInput(f"{text!r} is no path: pass a str or Path that is not empty")
    return text


def one_id(value: object) -> int | str | None:
    """Return a single id as an int or a text; None if `value` is not a single value."""
    if isinstance(value, str):
        return str(text("the id", value))
    if type(value) is not int:
        if isinstance(value, (list, tuple, range)) or np.ndim(value) != 0:  # type: ignore[arg-type]
            return None
        value = _index("the id", value)
    if not 0 <= value <= _ID_MAX:
        raise InvalidInput(f"the id is {value}: choose ids from 0 to 2**63 - 1")
    return value


def page_end(value: object) -> int | str | None:
    """Return the id at which a page ended; None if there was no page."""
    if value is None:
        return None
    # A job's snapshot may have ids from 2**63 on, which answers give as negative numbers.
    return text("after", value) if isinstance(value, str) else signed("after", value)


def many_ids(values: object) -> I64Array | list[str]:
    """Return ids as a packed int64 array, or texts as a list.

    Ids out of range, and those of the other kind than the collection's, are left for the native
    half.
    """
    texts = _texts(values)
    if texts is not None:
        return texts
    if type(values) is np.ndarray and values.dtype == _I64:
        array: NDArray[Any] = values
    else:
        array = _array("the ids", values)
    if array.ndim != 1:
        raise InvalidInput(f"the ids have {array.ndim} axes: pass one id or a sequence of ids")
    if array.dtype == _U64:
        # Above the largest int64 the sign bit is set: refused as out of range.
        array = array.view(_I64)
    elif array.dtype.kind not in "iu":
        array = _ids_one_by_one(array, values)
    return _packed(array, _I64)


def _texts(values: object) -> list[str] | None:
    """Return ids that are texts; None if the first one is no text."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "UO" or values.ndim != 1:
            return None
        values = values.tolist()
    if not isinstance(values, (list, tuple)):
        # Arrow arrays, and series of polars and pandas.
        convert = getattr(values, "to_pylist", None) or getattr(values, "to_list", None)
        if convert is None:
            return None
        values = convert()
    listed = cast("list[object]", values)
    if not listed or not isinstance(listed[0], str):
        return None
    if not all(isinstance(one, str) for one in listed):
        raise InvalidInput("some ids are texts and some are not: pass ids of one kind")
    texts = [str(one) for one in listed]
    try:
        # All at once: ids are many, and those that have no UTF-8 are rare.
        "".join(texts).encode()
    except UnicodeEncodeError:
        for one in texts:
            text("an id", one)
    return texts


def vector(what: str, values: object, *, many: str) -> F32Array:
    """Return a packed 1-d float32 array. `many` is the call that takes several vectors."""
    array = _numbers(what, values)
    if array.ndim != 1:
        hint = f": for several, call {many}" if array.ndim == 2 else ""
        raise InvalidInput(f"{what} has {array.ndim} axes, a vector has one{hint}")
    return _as_f32(what, array)


def matrix(what: str, values: object) -> VectorArray:
    """Return a packed 2-d array with a vector per row.

    It keeps the types uint8, int8 and float16, which is viewed as uint16; others become float32.
    """
    array = _two_axes(what, values)
    if array.dtype in (_U8, _I8):
        return _packed(array, array.dtype)
    if array.dtype == _F16:
        return _packed(array, _F16).view(np.uint16)
    return _as_f32(what, array)


def f32_matrix(what: str, values: object) -> F32Array:
    """Return a packed 2-d float32 array, a vector per row."""
    return _as_f32(what, _two_axes(what, values))


def _two_axes(what: str, values: object) -> NDArray[Any]:
    """Return a 2-d array of real numbers."""
    array = _numbers(what, values)
    if array.ndim != 2:
        raise InvalidInput(f"{what} have {array.ndim} axes: pass a matrix with a vector per row")
    return array


def _index(what: str, value: object) -> int:
    """Return the whole number that `value` is."""
    if isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{what} is {value}: pass a whole number")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        message = f"{what} is a {type(value).__name__}: pass a whole number"
        raise InvalidInput(message) from None


def _ids_one_by_one(array: NDArray[Any], values: object) -> I64Array:
    """Read ids that numpy does not see as integers: an empty list, or ints from 2**63 on."""
    if array is values and array.dtype.kind != "O":
        raise InvalidInput(f"the ids are {array.dtype} values: pass whole numbers")
    each = [_one_number(value) for value in cast("Iterable[object]", values)]
    return np.array(each, dtype=_I64)


def _one_number(value: object) -> int:
    number = _index("an id", value)
    if not 0 <= number <= _ID_MAX:
        raise InvalidInput(f"the id is {number}: choose ids from 0 to 2**63 - 1")
    return number


def _numbers(what: str, values: object) -> NDArray[Any]:
    """Return an array of real numbers."""
    if type(values) is np.ndarray and values.dtype == _F32:
        return values
    array = _array(what, values)
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{what} hold values of type {array.dtype}: pass real numbers")
    return array


def _array(what: str, values: object) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(f"{what} are a masked array: fill or drop the masked values")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} are no array of numbers: {error}") from None


def _as_f32(what: str, array: NDArray[Any]) -> F32Array:
    if array.dtype == _F32:
        return _packed(array, _F32)
    try:
        with np.errstate(over="raise"):
            return array.astype(_F32, order="C")
    except FloatingPointError:
        raise InvalidInput(f"{what} hold a value that is too large for float32") from None


def _packed(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return `array` packed by rows, aligned and in native byte order: itself if it is so."""
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and flags.aligned:
        return array
    return np.array(array, dtype=dtype, order="C")
