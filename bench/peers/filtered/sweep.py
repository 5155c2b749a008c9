"""Asks every query of a class with its filter, once per effort, until recall is enough.

1. The efforts of a mode come cheapest first. A mode ends where recall is enough, where two efforts
   have reached the target, or where the time is up.
2. Between the two efforts around the target some more are tried, so that the speed at the target is
   interpolated between near points.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from filtered.filter import hold_for
from harness.data import Distances, F32Array, hits, margin
from harness.measure import Clock, percentiles_us

if TYPE_CHECKING:
    from filtered.adapters.index import FilteredIndex, IdArray
    from filtered.columns import Attributes
    from filtered.truth import Truth

# More recall than this interests nobody in the table.
_RECALL_ENOUGH = 0.99
_REACHED_ENOUGH = 2
# Efforts that are tried between those around the target, where the knob is a whole number.
_BETWEEN = 2
# A point is measured for at least this long, in whole passes over the queries.
_POINT_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Asked:
    """What all classes share.

    Attributes
    ----------
    rows, distances
        Attributes and vectors of the rows.
    queries
        All queries; a class names some of them.
    k
        Neighbours wanted.
    target
        The recall that speeds are compared at.
    seconds
        Longest sweep of a mode.
    """

    rows: Attributes
    distances: Distances
    queries: F32Array
    k: int
    target: float
    seconds: float


def sweep(index: FilteredIndex, truth: Truth, asked: Asked) -> dict[str, Any]:
    """Return all points of one class (`is-whole` is false if the time was up)."""
    points: list[dict[str, Any]] = []
    is_whole = True
    for mode, efforts in index.efforts:
        # Without a filter the modes of a peer do the same.
        if points and truth.name == "none":
            break
        deadline = time.perf_counter() + asked.seconds
        found = _climb(index, truth, asked, mode, efforts, deadline)
        is_whole = is_whole and (found[-1]["is-last"] or time.perf_counter() < deadline)
        found += _between(index, truth, asked, mode, found, deadline)
        points += found
    for point in points:
        point.pop("is-last")
    return {
        "class": truth.name,
        "about": truth.about,
        "queries": len(truth.queries),
        "selectivity": float(truth.matches.mean()) / len(asked.rows),
        "is-whole": is_whole,
        "points": points,
    }


def _climb(
    index: FilteredIndex,
    truth: Truth,
    asked: Asked,
    mode: str,
    efforts: tuple[Any, ...],
    deadline: float,
) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    reached = 0
    for effort in efforts:
        point = measure(index, truth, asked, mode, effort, deadline)
        point["is-last"] = effort == efforts[-1]
        points.append(point)
        reached += point["recall"] >= asked.target
        if point["recall"] >= _RECALL_ENOUGH or reached == _REACHED_ENOUGH:
            point["is-last"] = True
        if point["is-last"] or time.perf_counter() > deadline:
            break
    return points


def _between(
    index: FilteredIndex,
    truth: Truth,
    asked: Asked,
    mode: str,
    found: list[dict[str, Any]],
    deadline: float,
) -> list[dict[str, Any]]:
    """Measure efforts between the last below the target and the first that reaches it."""
    below = [point["effort"] for point in found if point["recall"] < asked.target]
    above = [point["effort"] for point in found if point["recall"] >= asked.target]
    more: list[dict[str, Any]] = []
    if not below or not above or not isinstance(above[0], int):
        return more
    low, high = below[-1], above[0]
    for _ in range(_BETWEEN):
        middle = round(math.sqrt(low * high))
        if not low < middle < high or time.perf_counter() > deadline:
            break
        point = measure(index, truth, asked, mode, middle, deadline)
        more.append({**point, "is-last": True})
        low, high = (middle, high) if point["recall"] < asked.target else (low, middle)
    return more


def measure(
    index: FilteredIndex, truth: Truth, asked: Asked, mode: str, effort: Any, deadline: float
) -> dict[str, Any]:
    """Ask every query, over and over; after the deadline not again.

    A part of the queries would have another recall than all of them, so one pass is always whole.
    """
    pairs = list(zip(asked.queries[truth.queries], truth.filters, strict=True))
    for vector, conditions in itertools.islice(itertools.cycle(pairs), index.warm_queries):
        index.search(vector, index.prepare(conditions), asked.k, mode, effort)
    answers: list[IdArray] = []
    prepare_ns, search_ns = [], []
    clock = Clock()
    is_due = True
    while is_due:
        for vector, conditions in pairs:
            start = time.perf_counter_ns()
            prepared = index.prepare(conditions)
            middle = time.perf_counter_ns()
            found = index.search(vector, prepared, asked.k, mode, effort)
            end = time.perf_counter_ns()
            prepare_ns.append(middle - start)
            search_ns.append(end - middle)
            if len(answers) < len(pairs):
                answers.append(found)
        is_due = clock.spent().wall < _POINT_SECONDS and time.perf_counter() < deadline
    spent, count = clock.spent(), len(search_ns)
    searches, prepares = np.array(search_ns), np.array(prepare_ns)
    speeds = {
        "qps": count / spent.wall,
        "search-qps": 1e9 / float(searches.mean()),
        "prepare-us": float(prepares.mean()) / 1000,
        "cpu-us": spent.process / count * 1e6,
        "thread-cpu-us": spent.thread / count * 1e6,
    }
    return {
        "mode": mode,
        "effort": effort,
        **judged(answers, truth, asked),
        # There are a thousand points, and nobody needs more digits.
        **{name: round(value, 1) for name, value in speeds.items()},
        "query-us": {
            name: round(value, 1) for name, value in percentiles_us(searches + prepares).items()
        },
    }


def judged(answers: list[IdArray], truth: Truth, asked: Asked) -> dict[str, Any]:
    """Compare answers with the truth.

    Recall is the share of the `k` nearest matching rows, or of all where fewer match. `wrong`
    counts returned rows that do not match, which no recall makes up for; `short` the answers with
    fewer right rows than there are.
    """
    each, wrong, short = [], 0, 0
    for at, answer in enumerate(answers):
        ids = np.unique(answer[answer >= 0])
        right = ids[hold_for(truth.filters[at], asked.rows, ids)]
        wrong += len(ids) - len(right)
        wanted = min(asked.k, int(truth.matches[at]))
        short += len(right) < wanted
        query = asked.queries[truth.queries[at]]
        found = hits(asked.distances, query, right, float(truth.kth[at]))
        each.append(min(found, wanted) / wanted)
    every = np.array(each)
    return {
        "asked": len(answers),
        "recall": round(float(every.mean()), 5),
        "recall-margin": round(margin(every), 5),
        "recall-least": round(float(every.min()), 5),
        "wrong": wrong,
        "short": int(short),
    }
