"""Which filters are asked with: classes of pairs of a query and a filter.

Filters of one class have about one selectivity, or one relation to the vectors. A query of which a
class cannot make a filter (a word without a topic) is left out there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from filtered.columns import Attributes
from filtered.filter import Condition, Filter

_SEED = 7
# Words that a filter of two random topics is drawn from: as frequent as rows have them.
_TRIES = 64
# Share of the rows that the ranges let through.
_PRICE_WIDTH = 10.0
_LATEST = 0.04
_FOREMOST = 0.04


@dataclass(frozen=True, slots=True)
class Case:
    """A class of queries with filters.

    Attributes
    ----------
    name, about
        For tables.
    queries
        Numbers of the queries.
    filters
        A filter for each of them.
    """

    name: str
    about: str
    queries: tuple[int, ...]
    filters: tuple[Filter, ...]


class _Draw:
    """Makes filters for the queries of one class."""

    def __init__(self, rows: Attributes, asked: Attributes, seed: list[int]) -> None:
        self.rows = rows
        self.asked = asked
        self.chance = np.random.default_rng(seed)
        self._limits: dict[tuple[str, float], int] = {}

    def limit(self, name: str, share: float) -> int:
        """Return the number that this share of the rows does not exceed."""
        at = name, share
        if at not in self._limits:
            self._limits[at] = int(np.quantile(self.rows[name].values, share))
        return self._limits[at]

    def any_word(self, name: str) -> str:
        """Return the keyword of a random row that has one."""
        column = self.rows[name]
        for _ in range(_TRIES):
            code = column.values[self.chance.integers(len(column.values))]
            if code >= 0:
                return column.words[code]
        there = column.values[column.values >= 0]
        return column.words[there[self.chance.integers(len(there))]]

    def own(self, name: str, query: int) -> str | None:
        """Return the query's own keyword, if rows have it too."""
        column = self.asked[name]
        code = column.values[query]
        word = column.words[code] if code >= 0 else None
        return word if word in self.rows[name].words else None

    def own_list(self, name: str, query: int) -> set[str]:
        """Return the query's own list of keywords."""
        (words,) = self.asked[name].plain(query, query + 1)
        return set(words)

    def other(self, query: int) -> str | None:
        """Return a topic of another row that is none of the query's topics."""
        own = self.own_list("topics", query)
        for _ in range(_TRIES):
            word = self.any_word("topic")
            if own and word not in own:
                return word
        return None


_Maker = Callable[[_Draw, int], Filter | None]


def _true(name: str) -> _Maker:
    return lambda draw, query: (Condition(name, "is", value=True),)  # noqa: ARG005


def _word(*names: str) -> _Maker:
    return lambda draw, query: tuple(  # noqa: ARG005
        Condition(name, "is", draw.any_word(name)) for name in names
    )


def _own_topic(draw: _Draw, query: int) -> Filter | None:
    own = draw.own("topic", query)
    return own and (Condition("topic", "is", own),)


def _other_topic(draw: _Draw, query: int) -> Filter | None:
    other = draw.other(query)
    return other and (Condition("topic", "is", other),)


def _own_topic_and_letter(draw: _Draw, query: int) -> Filter | None:
    own = draw.own("topic", query)
    letter = draw.any_word("letter")
    return own and (Condition("topic", "is", own), Condition("letter", "is", letter))


def _other_topic_and_word(draw: _Draw, query: int) -> Filter | None:
    other = draw.other(query)
    word = draw.any_word("r4")
    return other and (Condition("topic", "is", other), Condition("r4", "is", word))


def _any_of_two(draw: _Draw, query: int) -> Filter | None:
    own, other = draw.own("topic", query), draw.other(query)
    if own is None or other is None:
        return None
    return (Condition("topics", "any", sorted([own, other])),)


def _price(draw: _Draw, query: int) -> Filter | None:  # noqa: ARG001
    low = round(float(draw.chance.uniform(0, 100 - _PRICE_WIDTH)), 2)
    return (Condition("price", "within", [low, round(low + _PRICE_WIDTH, 2)]),)


def _foremost(draw: _Draw, query: int) -> Filter | None:  # noqa: ARG001
    # The most frequent words; of texts, which have no rank, the longest.
    if "rank" in draw.rows:
        return (Condition("rank", "most", draw.limit("rank", _FOREMOST)),)
    return (Condition("length", "least", draw.limit("length", 1 - _FOREMOST)),)


def _latest(name: str) -> _Maker:
    return lambda draw, query: (  # noqa: ARG005
        Condition(name, "least", draw.limit(name, 1 - _LATEST)),
    )


_CLASSES: dict[str, tuple[str, _Maker]] = {
    "none": ("no filter", lambda draw, query: ()),  # noqa: ARG005
    "50%": ("a random truth value", _true("r50")),
    "20%": ("a random truth value", _true("r20")),
    "4%": ("one of 25 random keywords", _word("r4")),
    "1%": ("one of 100 random keywords", _word("r1")),
    "0.1%": ("one of 1,000 random keywords", _word("r01")),
    "own topic": ("the query's own topic", _own_topic),
    "other topic": ("a topic that is none of the query's", _other_topic),
    "two random": ("two random keywords of 4 % each", _word("r4", "s4")),
    "own + letter": ("the query's own topic and a first letter", _own_topic_and_letter),
    "other + 4%": ("another topic and a random keyword of 4 %", _other_topic_and_word),
    "any of two": ("a list with the query's own topic or another", _any_of_two),
    "price": ("a tenth of a random number's range", _price),
    "foremost": ("the most frequent words; of texts, the longest", _foremost),
    "latest": ("the latest moments, random", _latest("time")),
    "latest drift": ("the latest moments of rows that drift", _latest("drift")),
}

NAMES = tuple(_CLASSES)


def make(rows: Attributes, asked: Attributes, count: int) -> list[Case]:
    """Draw up to `count` pairs per class, the same for the same rows and queries."""
    cases = []
    for number, (name, (about, maker)) in enumerate(_CLASSES.items()):
        draw = _Draw(rows, asked, [_SEED, number])
        queries: list[int] = []
        filters: list[Filter] = []
        for query in range(len(asked)):
            if len(queries) == count:
                break
            found = maker(draw, query)
            if found is not None:
                queries.append(query)
                filters.append(found)
        cases.append(Case(name, about, tuple(queries), tuple(filters)))
    return cases
