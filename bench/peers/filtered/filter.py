"""A filter: conditions on attributes that must all hold. Each peer has a language of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from filtered.columns import Attributes

Value = str | int | float | bool | list[str] | list[float] | list[int]
Masks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one attribute; it does not hold for a row without a value.

    Attributes
    ----------
    name
        The attribute.
    test
        `is`: the keyword or truth value is this. `any`: the list has one of these. `least`: the
        number or moment is at least this. `most`: it is at most this. `within`: it is at least the
        first and less than the second.
    value
        What is compared with.
    """

    name: str
    test: str
    value: Value

    def holds(self, rows: Attributes) -> Masks:
        """Say for which rows it holds."""
        column = rows[self.name]
        values = column.values
        if self.test == "any":
            assert column.starts is not None, self.name
            is_wanted = np.array([word in self.value for word in column.words], dtype=np.bool_)
            # Sums up to each entry: a run that has one of these ends higher than it begins.
            counts = np.zeros(len(values) + 1, dtype=np.int32)
            np.cumsum(is_wanted[values], out=counts[1:])
            found: Masks = np.diff(counts[column.starts]) > 0
            return found
        if self.test == "is":
            wanted = self.value
            if column.kind == "keyword":
                # -2 is no row's.
                wanted = column.words.index(self.value) if self.value in column.words else -2
            return np.equal(values, wanted)
        # No comparison holds for NaN, and a missing whole number is less than any.
        if self.test == "least":
            return np.greater_equal(values, self.value)
        if self.test == "most":
            return column.has_value() & (values <= self.value)
        low, high = self.value
        return np.greater_equal(values, low) & (values < high)


Filter = tuple[Condition, ...]


def matches(conditions: Filter, rows: Attributes) -> Masks:
    """Say which rows a filter lets through; without a condition it is all of them."""
    mask: Masks = np.ones(len(rows), dtype=np.bool_)
    for condition in conditions:
        mask &= condition.holds(rows)
    return mask


def hold_for(conditions: Filter, rows: Attributes, ids: NDArray[np.integer[Any]]) -> Masks:
    """Say which of a few rows a filter lets through."""
    if not conditions:
        return np.ones(len(ids), dtype=np.bool_)
    return matches(conditions, rows.take(ids, {one.name for one in conditions}))


def as_json(conditions: Filter) -> list[dict[str, Any]]:
    """Return the filter as JSON has it; `from_json` reads it."""
    return [asdict(condition) for condition in conditions]


def from_json(found: list[dict[str, Any]]) -> Filter:
    """Read what `as_json` wrote."""
    return tuple(Condition(**one) for one in found)
