"""LlamaIndex's metadata filters as filters of a collection."""

from __future__ import annotations

import json
import sys
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

import vstream

Condition = dict[str, Any]

ALWAYS: Condition = {"must": []}
NEVER: Condition = {"must": [{"has_id": []}]}

_RANGES = {
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}
# The first and the last value of the types that are numbers.
_LIMITS: dict[str, tuple[float, float]] = {
    "i64": (-(2**63), 2**63 - 1),
    "f64": (-sys.float_info.max, sys.float_info.max),
}
# What one condition may hold: values, and bytes of JSON less some for what is around it.
_VALUES_MAX = 65_536
_JSON_BYTES_MAX = (1 << 20) - 1024
_AMONG = (FilterOperator.EQ, FilterOperator.NE, FilterOperator.IN, FilterOperator.NIN)


def where(filters: MetadataFilters | None, collection: vstream.Collection) -> Condition | None:
    """Return the filter of a collection that holds for the same nodes; None for all nodes."""
    if filters is None or not filters.filters:
        return None
    parts = [_part(one, collection) for one in filters.filters]
    if filters.condition == FilterCondition.OR:
        return {"should": parts}
    if filters.condition == FilterCondition.NOT:
        return {"must_not": parts}
    return {"must": parts}


def _part(one: object, collection: vstream.Collection) -> Condition:
    if isinstance(one, MetadataFilters):
        return where(one, collection) or ALWAYS
    if not isinstance(one, MetadataFilter):
        raise TypeError(f"{one!r} is no metadata filter")
    kind = collection.attributes.get(one.key)
    if one.operator == FilterOperator.IS_EMPTY:
        return _empty(one.key, kind)
    if one.operator in _AMONG:
        is_list = one.operator in (FilterOperator.IN, FilterOperator.NIN)
        values = _listed(one.value) if is_list else [one.value]
        among = NEVER if kind is None else _among(one.key, kind, values)
        is_negated = one.operator in (FilterOperator.NE, FilterOperator.NIN)
        return {"must_not": [among]} if is_negated else among
    if kind is None:
        return NEVER
    return _range(one, kind) if one.operator in _RANGES else _inside(one, kind, collection)


def _empty(key: str, kind: str | None) -> Condition:
    if kind is None:
        return ALWAYS
    missing = {"is_empty": {"key": key}}
    if kind != "keyword":
        return {"should": [missing]}
    return {"should": [missing, {"key": key, "match": {"value": ""}}]}


def _listed(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    raise ValueError(f"{value!r} is no list: 'in' and 'nin' compare with a list")


def _among(key: str, kind: str, values: list[Any]) -> Condition:
    """Return the condition that the value is one of these; values of other types never are."""
    fitting: list[Any] = []
    if kind in _LIMITS:
        numbers = (_number(kind, value) for value in values)
        fitting = [number for number in numbers if number is not None]
    elif kind == "bool":
        # In Python True equals 1.
        fitting = [bool(v) for v in values if isinstance(v, (bool, int, float)) and v in (0, 1)]
        same = [{"key": key, "match": {"value": value}} for value in set(fitting)]
        return {"should": same} if same else NEVER
    elif kind == "keyword":
        fitting = [value for value in values if isinstance(value, str)]
    return {"must": [{"key": key, "match": {"any": fitting}}]} if fitting else NEVER


def _number(kind: str, value: object) -> float | None:
    """Return the number of a kind that equals a value; None if there is none."""
    if not isinstance(value, (int, float)) or not _is_inside(kind, value):
        return None
    number = int(value) if kind == "i64" else float(value)
    return number if number == value else None


def _is_inside(kind: str, value: float) -> bool:
    """Return whether a number is in the range of a kind; NaN and infinity never are."""
    first, last = _LIMITS[kind]
    return first <= value <= last


def _range(one: MetadataFilter, kind: str) -> Condition:
    value = one.value
    if kind not in _LIMITS or not isinstance(value, (int, float)):
        raise ValueError(
            f"'{one.key}' is of type {kind} and is compared with {value!r}: only numbers have "
            "an order"
        )
    if _is_inside(kind, value):
        return {"must": [{"key": one.key, "range": {_RANGES[one.operator]: value}}]}
    # All numbers that an attribute has are on one side of it; NaN has no sides.
    is_below = one.operator in (FilterOperator.LT, FilterOperator.LTE)
    holds = value > 0 if is_below else value < 0
    return {"must_not": [{"is_null": {"key": one.key}}]} if holds else NEVER


def _inside(one: MetadataFilter, kind: str, collection: vstream.Collection) -> Condition:
    """Return the condition on the words of a list, or on parts of a text."""
    texts = one.value if isinstance(one.value, list) else [one.value]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{one.operator} compares texts, and the value is {one.value!r}")
    if kind == "keywords":
        if one.operator in (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE):
            raise ValueError(f"'{one.key}' is a list: use any, all or contains")
        form = "any" if one.operator == FilterOperator.ANY else "all"
        if not texts:
            return NEVER if form == "any" else {"must_not": [{"is_null": {"key": one.key}}]}
        return {"must": [{"key": one.key, "match": {form: texts}}]}
    if kind != "keyword":
        raise ValueError(f"'{one.key}' is of type {kind}: {one.operator} looks inside texts")
    return _found(one, texts, collection)


def _found(one: MetadataFilter, texts: list[str], collection: vstream.Collection) -> Condition:
    """Return the values of a text attribute that hold the texts. Reads it in every row.

    Raises
    ------
    vstream.InvalidInput
        If these values are more than a filter takes.
    """
    is_folded = one.operator == FilterOperator.TEXT_MATCH_INSENSITIVE
    wanted = [text.lower() for text in texts] if is_folded else texts
    joined = any if one.operator == FilterOperator.ANY else all
    matching: set[str] = set()
    json_bytes = 0
    after = None
    while True:
        rows, after = collection.scroll(limit=10_000, after=after, with_=[one.key])
        for value in rows.attributes.get(one.key, []):
            if value is None or value in matching:
                continue
            text = value.lower() if is_folded else value
            if joined(part in text for part in wanted):
                matching.add(value)
                json_bytes += len(json.dumps(value)) + 2
        if len(matching) > _VALUES_MAX or json_bytes > _JSON_BYTES_MAX:
            raise vstream.InvalidInput(
                f"{one.operator.value} finds more texts of '{one.key}' than a filter takes, "
                f"{_VALUES_MAX:,} or 1 MiB: ask for a longer text, or keep what you ask for as "
                "metadata of its own"
            )
        if after is None:
            break
    return _among(one.key, "keyword", sorted(matching))
