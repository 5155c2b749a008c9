"""Writes the schema of a collection for the native half, which checks it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias, cast

from vstream import _arguments
from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

# A mode of groups, alone or as settings files have it.
Groups: TypeAlias = "str | Mapping[str, str] | None"

_MODES = ("isolated", "shared")
# Columns of rows in answers and tables: an attribute of such a name could not be told from them.
ROW_COLUMNS = ("id", "distance", "score", "vector", "payload")


def kinds(attributes: object) -> dict[str, str]:
    """Return types by the names of attributes."""
    if attributes is not None and not hasattr(attributes, "items"):
        raise InvalidInput("attributes: pass a dictionary from names to types")
    given = {} if attributes is None else dict(cast("Mapping[str, str]", attributes))
    for name, kind in given.items():
        _arguments.name("the name of an attribute", name)
        _arguments.name(f"the type of '{name}'", kind)
    return given


def check_new(names: Iterable[str], known: Container[str] = ()) -> None:
    """Refuse names of rows' own columns for attributes, unless a collection has them already."""
    for name in names:
        if name in ROW_COLUMNS and name not in known:
            own = ", ".join(ROW_COLUMNS)
            message = f"choose a name for the attribute that is none of {own}"
            raise InvalidInput(f"'{name}' is the name of a column that rows have: {message}")


def mode(groups: object) -> str | None:
    """Return the mode of groups: `isolated`, `shared` or None."""
    if groups is None:
        return None
    named: object = groups
    if hasattr(groups, "items"):
        given = dict(cast("Mapping[str, str]", groups))
        named = given.pop("mode", None)
        if given:
            raise InvalidInput(f"groups has no key {next(iter(given))!r}: it has 'mode'")
    if named not in _MODES:
        raise InvalidInput(f"groups is {groups!r}: choose 'isolated' or 'shared'")
    return str(named)


def schema(id_kind: object, attributes: object, *, is_open: bool, groups: str | None) -> str:
    """Return the schema as JSON."""
    given = kinds(attributes)
    check_new(given)
    listed = [{"name": name, "type": kind} for name, kind in given.items()]
    made = {"id": _arguments.name("id", id_kind), "attributes": listed, "open": is_open}
    if groups is not None:
        made["groups"] = {"mode": groups}
    return json.dumps(made)
