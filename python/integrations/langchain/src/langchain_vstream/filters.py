"""Filters on metadata that no document has: a missing value meets no comparison.

A collection refuses a condition on an attribute that it does not have, as the name may be wrong.
Here metadata comes with the documents, so that a filter may be there before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vstream.filters import has_clauses

if TYPE_CHECKING:
    from collections.abc import Container

    from vstream.filters import Where

# In Qdrant's form: what holds for no row, and for all.
_NONE: dict[str, Any] = {"has_id": []}
_ALL: dict[str, Any] = {"must": []}
# Operators of a dictionary that hold for a value that is missing.
_NEGATED = ("$ne", "$nin")


def among_known(where: Where | None, known: Container[str]) -> Where | None:
    """Return a filter that holds for the same rows and names attributes that are there.

    A text in SQL stays as it is.
    """
    if not isinstance(where, Mapping):
        return where
    given = dict(where)
    if has_clauses(given):
        return _clauses(given, known)
    made = _dictionary(given, known)
    # What is left may look like the other form.
    return {"$and": [made]} if has_clauses(made) else made


def _dictionary(given: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    is_none = False
    for name, value in given.items():
        if name in ("$and", "$or", "$nor") and isinstance(value, (list, tuple)):
            made[name] = [
                _dictionary(one, known) if isinstance(one, Mapping) else one for one in value
            ]
        elif name == "$not" and isinstance(value, Mapping):
            made[name] = _dictionary(value, known)
        elif not isinstance(name, str) or name.startswith("$") or name == "id" or name in known:
            made[name] = value
        else:
            is_none = is_none or not _holds_without_value(value)
    # No row has one of no ids.
    return {**made, "id": {"$in": []}} if is_none else made


def _holds_without_value(condition: object) -> bool:
    """Return whether a condition of a dictionary holds for a row without the value."""
    if not isinstance(condition, Mapping):
        return condition is None
    for operator, value in condition.items():
        if operator == "$not":
            holds = not _holds_without_value(value)
        elif operator == "$exists":
            holds = value is False
        elif operator in _NEGATED:
            holds = value is not None
        else:
            holds = operator == "$eq" and value is None
        if not holds:
            return False
    return True


def _clauses(given: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    made = dict(given)
    for clause, value in given.items():
        if clause == "min_should" and isinstance(value, Mapping) and "conditions" in value:
            made[clause] = {**value, "conditions": _conditions(value["conditions"], known)}
        elif clause != "min_should":
            made[clause] = _conditions(value, known)
    return made


def _conditions(value: object, known: Container[str]) -> object:
    if isinstance(value, (list, tuple)):
        return [_condition(one, known) for one in value]
    return _condition(value, known)


def _condition(given: object, known: Container[str]) -> object:
    if not isinstance(given, Mapping):
        return given
    if "key" in given:
        return _of_key(given, given, known)
    if len(given) == 1:
        [(form, value)] = given.items()
        if form in ("is_null", "is_empty") and isinstance(value, Mapping):
            return _of_key(given, {**value, form: True}, known)
        if form == "filter" and isinstance(value, Mapping):
            return {form: _clauses(value, known)}
    return _clauses(given, known)


def _of_key(given: object, condition: Mapping[str, Any], known: Container[str]) -> object:
    """Return what was given, unless its condition is on an attribute that is not there."""
    key = condition.get("key")
    if not isinstance(key, str) or key in known:
        return given
    count = condition.get("values_count")
    is_small = isinstance(count, Mapping) and ("lt" in count or "lte" in count)
    is_missing = condition.get("is_null") is True or condition.get("is_empty") is True
    return _ALL if is_small or is_missing else _NONE
