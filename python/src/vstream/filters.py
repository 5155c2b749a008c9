"""What `where` may be: a dictionary, or the text of an SQL condition with parameters."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vstream import _arguments, _moments
from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A dictionary such as {"price": {"$gte": 3}} or {"must": [...]}, or an SQL condition.
Where: TypeAlias = "Mapping[str, object] | str"
# Form, text, parameters as JSON, and a shared group.
NativeFilter: TypeAlias = tuple[str, str, str, str | None]

_CLAUSES = {"must", "should", "must_not", "min_should"}


def native_filter(
    where: Where | None,
    parameters: Sequence[object] | None = None,
    group: str | None = None,
) -> NativeFilter | None:
    """Return the form in which the native half reads a filter, within a shared group."""
    if group is not None and (not isinstance(group, str) or not group):
        raise InvalidInput(f"group is {group!r}: pass its name as a str")
    if group is not None:
        _arguments.text("group", group)
    if where is None:
        if parameters:
            raise InvalidInput("there are parameters and no condition: pass where")
        return None if group is None else ("all", "", "[]", group)
    if isinstance(where, str):
        _arguments.text("where", where)
        return "sql", where, _json("the parameters", list(parameters or ())), group
    if parameters:
        raise InvalidInput("parameters go with an SQL condition: pass where as a str")
    if not hasattr(where, "items"):
        message = "pass a dictionary or an SQL condition"
        raise InvalidInput(f"where is a {type(where).__name__}: {message}")
    given = dict(where)
    return "json" if has_clauses(given) else "dict", _json("where", given), "[]", group


def has_clauses(given: Mapping[str, object]) -> bool:
    """Return whether a dictionary is of Qdrant's form."""
    if not given or not set(given) <= _CLAUSES:
        return False
    # An attribute may have such a name, but its condition is no list.
    values = (value for name, value in given.items() if name != "min_should")
    return all(isinstance(value, (list, tuple, dict)) for value in values)


def _json(what: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} cannot be read: {error}") from None


def _plain(value: object) -> object:
    """Return a value that JSON has, for one of numpy or datetime."""
    if isinstance(value, np.generic):
        if isinstance(value, np.datetime64):
            if not _moments.are_near(value):
                raise TypeError(f"{value!r} is beyond datetime: pass {_moments.WANTED}")
            return str(value.astype("datetime64[ms]")) + "Z"
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return zoned.isoformat()
    if isinstance(value, datetime.date):
        return f"{value.isoformat()}T00:00:00Z"
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a {type(value).__name__} is no value of a filter")
