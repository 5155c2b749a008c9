"""The attributes of rows as columns: `attributes.npz` and `attributes.json` beside the vectors.

A keyword is a number into the words of its column; a list of keywords is a run of such numbers.
A row may lack a value: keywords and truth values have -1 then, whole numbers and moments the least
i64, other numbers NaN, and a list is empty.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KINDS = ("keyword", "keywords", "i64", "f64", "bool", "timestamp")
# What a whole number or a moment is in a row without one.
MISSING = np.iinfo(np.int64).min
# The two parts of a data set, as their .fbin files are called.
PARTS = ("base", "query")


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of all rows.

    Attributes
    ----------
    kind
        One of `KINDS`, as VStream calls them.
    values
        A number per row; of a list of keywords, all runs behind one another.
    words
        Of a keyword: what its numbers stand for.
    starts
        Of a list of keywords: where each row's run begins, and at last where the last one ends.
    """

    kind: str
    values: NDArray[Any]
    words: tuple[str, ...] = ()
    starts: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.values) if self.starts is None else len(self.starts) - 1

    def front(self, rows: int) -> Column:
        """Return the first `rows` rows."""
        if self.starts is None:
            return Column(self.kind, self.values[:rows], self.words)
        starts = self.starts[: rows + 1]
        return Column(self.kind, self.values[: starts[-1]], self.words, starts)

    def take(self, rows: NDArray[np.integer[Any]]) -> Column:
        """Return some rows, for few of them."""
        if self.starts is None:
            return Column(self.kind, self.values[rows], self.words)
        runs = [self.values[self.starts[row] : self.starts[row + 1]] for row in rows]
        lengths = np.array([0, *(len(run) for run in runs)], dtype=np.int64)
        values = np.concatenate(runs) if runs else self.values[:0]
        return Column(self.kind, values, self.words, np.cumsum(lengths))

    def has_value(self) -> NDArray[np.bool_]:
        """Say which rows have one; of lists, those with an entry."""
        if self.starts is not None:
            return np.diff(self.starts) > 0
        if self.kind == "f64":
            return ~np.isnan(self.values)
        if self.kind in {"i64", "timestamp"}:
            return self.values != MISSING
        return self.values >= 0

    def plain(self, first: int = 0, last: int | None = None) -> list[Any]:
        """Return the values of some rows as Python has them; None where there is none."""
        last = len(self) if last is None else min(last, len(self))
        if self.starts is not None:
            runs = zip(self.starts[first:last], self.starts[first + 1 : last + 1], strict=True)
            return [[self.words[at] for at in self.values[start:end]] for start, end in runs]
        there = self.front(last).has_value()[first:]
        pairs = zip(self.values[first:last].tolist(), there.tolist(), strict=True)
        if self.kind == "keyword":
            return [self.words[value] if is_there else None for value, is_there in pairs]
        as_is = bool if self.kind == "bool" else (lambda value: value)
        return [as_is(value) if is_there else None for value, is_there in pairs]


def keyword(values: Sequence[str | None]) -> Column:
    """Make a column of keywords, in the order in which they first appear."""
    known: dict[str, int] = {}
    codes = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    return Column("keyword", np.array(codes, dtype=np.int32), tuple(known))


def keywords(values: Sequence[Sequence[str]]) -> Column:
    """Make a column of lists of keywords."""
    known: dict[str, int] = {}
    codes = [known.setdefault(one, len(known)) for row in values for one in row]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in values], dtype=np.int64)])
    packed = np.array(codes, dtype=np.int32)
    return Column("keywords", packed, tuple(known), starts.astype(np.int64))


def whole(values: Sequence[int | None], kind: str = "i64") -> Column:
    """Make a column of whole numbers, or of moments: milliseconds since 1970."""
    filled = [MISSING if value is None else value for value in values]
    return Column(kind, np.array(filled, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Attributes:
    """All columns of one part of a data set, by name."""

    columns: dict[str, Column]

    def __getitem__(self, name: str) -> Column:
        """Return the column of this name."""
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        """Say whether there is such a column."""
        return name in self.columns

    def __len__(self) -> int:
        """Count the rows."""
        return min(len(column) for column in self.columns.values())

    def front(self, rows: int) -> Attributes:
        """Return the first `rows` rows."""
        return Attributes({name: one.front(rows) for name, one in self.columns.items()})

    def take(self, rows: NDArray[np.integer[Any]], names: set[str]) -> Attributes:
        """Return some rows of the columns with these names."""
        return Attributes({name: self.columns[name].take(rows) for name in names})

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column."""
        return {name: one.kind for name, one in self.columns.items()}


def write(folder: Path, parts: dict[str, Attributes], about: dict[str, Any]) -> None:
    """Write the columns of the parts of a data set; the description comes last."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, attributes in parts.items():
        for name, column in attributes.columns.items():
            arrays[f"{part}/{name}"] = column.values
            if column.words:
                arrays[f"{part}/{name}/words"] = np.array(column.words)
            if column.starts is not None:
                arrays[f"{part}/{name}/starts"] = column.starts
    (folder / "attributes.json").unlink(missing_ok=True)
    beside = folder / "attributes.partial.npz"
    np.savez_compressed(beside, **arrays)
    beside.rename(folder / "attributes.npz")
    kinds = next(iter(parts.values())).kinds()
    rows = {part: len(attributes) for part, attributes in parts.items()}
    text = json.dumps({"kinds": kinds, "rows": rows, **about}, indent=2)
    (folder / "attributes.json").write_text(f"{text}\n")


def read(folder: Path, part: str, rows: int) -> Attributes:
    """Read the columns of the first rows of `base` or `query`. Exits if there are none."""
    description = folder / "attributes.json"
    if not description.exists():
        raise SystemExit(f"{folder} has no attributes: run `make data-attributes` first.")
    about = json.loads(description.read_text())
    if about["rows"][part] < rows:
        raise SystemExit(
            f"{folder} has attributes of {about['rows'][part]:,} rows, not {rows:,}: run "
            "`make data-attributes` again."
        )
    with np.load(folder / "attributes.npz") as kept:
        columns = {}
        for name, kind in about["kinds"].items():
            at = f"{part}/{name}"
            words = tuple(kept[f"{at}/words"].tolist()) if f"{at}/words" in kept else ()
            starts = kept.get(f"{at}/starts")
            columns[name] = Column(kind, kept[at], words, starts).front(rows)
    return Attributes(columns)
