"""Metadata of documents as attributes, for stores of other libraries.

Such a store keeps all metadata of a document in the payload of its row, and as attributes what can
be filtered. One value that no attribute can hold must not refuse the rest of a batch: here it is
left out, so that it is in the payload alone.
"""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

from vstream import _columns, _moments
from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# The engine's limits: `schema.rs` and `record.rs` of the crate vstream-attribute.
ATTRIBUTES_MAX = 256
NAME_BYTES_MAX = 128
KEYWORD_BYTES_MAX = 4 << 10
KEYWORDS_MAX = 1 << 10
# Of all attributes of a row. Each takes its own bytes beside those of its value.
ROW_BYTES_MAX = 64 << 10
_HEAD_BYTES = 3


def columns(metadatas: Sequence[Mapping[Any, Any]], known: Mapping[str, str]) -> dict[str, Any]:
    """Return what can be filtered of the metadata of rows, column by column.

    None stands where a row has no value, or one that no attribute can hold: a value that is no
    text, number, truth value, time or list of texts, a text of more than 4 KiB, a number that is
    not finite or beyond 64 bits, or what is beyond 64 KiB in a row. A name that has no such column
    is left out, as is one beyond the 256 attributes of a collection; earlier names come first.

    A value of another type than its attribute has is there, and `upsert` refuses it.

    Parameters
    ----------
    metadatas
        Values by name, of each row.
    known
        Types of the attributes that the collection has.

    Examples
    --------
    >>> from vstream import metadata
    >>> metadata.columns([{"year": 1861}, {"year": 2**80, "text": "long " * 1000}], {})
    {'year': [1861, None]}
    """
    made: dict[str, Any] = {}
    room = ATTRIBUTES_MAX - len(known)
    bytes_left = [ROW_BYTES_MAX] * len(metadatas)
    for name in dict.fromkeys(name for one in metadatas for name in one):
        if not _is_name(name) or (name not in known and room <= 0):
            continue
        values = [one.get(name) for one in metadatas]
        kind = known.get(name)
        sizes = [_size(kind, value) for value in values]
        fits = [
            size is not None and size <= left for size, left in zip(sizes, bytes_left, strict=True)
        ]
        if not any(fits):
            continue
        room -= 0 if name in known else 1
        made[name] = [value if fit else None for value, fit in zip(values, fits, strict=True)]
        for row, fit in enumerate(fits):
            bytes_left[row] -= (sizes[row] or 0) if fit else 0
    return made


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not name or name.startswith("$"):
        return False
    size = _text_bytes(name)
    return size is not None and size <= NAME_BYTES_MAX


def _size(kind: str | None, value: object) -> int | None:
    """Return the bytes of a value in its row; None if no attribute can hold it.

    The kind is that of the attribute; None if there is none yet.
    """
    size: int | None = None
    # True is an int as well.
    if isinstance(value, bool):
        size = 1
    elif isinstance(value, (int, float)):
        size = 8 if _is_number(kind, value) else None
    elif isinstance(value, datetime.date):
        size = 8 if _is_moment(value) else None
    elif isinstance(value, str):
        size = _text_bytes(value)
        if size is not None:
            size = None if size > KEYWORD_BYTES_MAX and kind != "text" else 4 + size
    elif isinstance(value, (list, tuple, set, frozenset)):
        size = _list_bytes(value)
    return None if size is None else _HEAD_BYTES + size


def _is_number(kind: str | None, value: float) -> bool:
    if kind == "timestamp":
        return _moments.FIRST <= value <= _moments.LAST
    if isinstance(value, int) and kind != "f64":
        return -(2**63) <= value < 2**63
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number beyond all floats.
        return False


def _is_moment(value: datetime.date) -> bool:
    try:
        _columns.milliseconds("", value)
    except InvalidInput:
        # In another zone it may be beyond the year 9999.
        return False
    return True


def _list_bytes(values: Collection[object]) -> int | None:
    if len(values) > KEYWORDS_MAX:
        return None
    size = 2
    for one in values:
        text = _text_bytes(one) if isinstance(one, str) else None
        if text is None or text > KEYWORD_BYTES_MAX:
            return None
        size += 2 + text
    return size


def _text_bytes(text: str) -> int | None:
    """Return the bytes of a text in UTF-8; None if it has none, as half of a surrogate pair."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None
