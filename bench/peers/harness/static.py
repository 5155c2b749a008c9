"""Build, then queries only, once per effort."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.data import Distances, F32Array, margin, recalls
from harness.measure import Clock, percentiles_us

if TYPE_CHECKING:
    from adapters.peer import Peer
    from harness.task import Task
    from harness.truth import Truth

# A point is measured for at least this long, in whole passes over the queries.
_POINT_SECONDS = 0.5
# More recall than this interests nobody in the table.
_RECALL_ENOUGH = 0.998


def sweep(
    peer: Peer, rows: F32Array, queries: F32Array, task: Task, truth: Truth
) -> dict[str, Any]:
    """Measure every effort until recall is enough or the time is up (`is-whole` is false then)."""
    queries = queries[: peer.queries_max]
    distances = Distances(rows, task.metric)
    kth = truth.kth(task.k)[: len(queries)]
    deadline = time.perf_counter() + task.seconds
    points: list[dict[str, Any]] = []
    for effort in peer.efforts:
        peer.set_effort(effort)
        peer.warm(queries, task.k)
        batch = _batch(peer, queries, task.k)
        single = _single(peer, queries, task.k)
        each = recalls(distances, queries, single.pop("answers"), kth)
        found = float(each.mean())
        point = {"effort": effort, "recall": found, "recall-margin": margin(each)}
        points.append({**point, **single, **batch})
        print(f"effort {effort}: recall {found:.4f}, {single['qps']:.0f} QPS", flush=True)
        if found >= _RECALL_ENOUGH:
            break
        if time.perf_counter() > deadline and effort != peer.efforts[-1]:
            return {"points": points, "is-whole": False}
    return {"points": points, "is-whole": True}


def _batch(peer: Peer, queries: F32Array, k: int) -> dict[str, Any]:
    """All queries in one call, over and over."""
    clock, passes = Clock(), 0
    while passes == 0 or clock.spent().wall < _POINT_SECONDS:
        peer.query_batch(queries, k)
        passes += 1
    spent, count = clock.spent(), passes * len(queries)
    return {
        "batch-qps": count / spent.wall,
        "batch-cpu-us": spent.process / count * 1e6,
    }


def _single(peer: Peer, queries: F32Array, k: int) -> dict[str, Any]:
    """One call per query, as a server would."""
    answers = np.full((len(queries), k), -1, dtype=np.int64)
    times_ns: list[int] = []
    clock = Clock()
    while not times_ns or clock.spent().wall < _POINT_SECONDS:
        for at, query in enumerate(queries):
            start = time.perf_counter_ns()
            found = peer.query(query, k)
            times_ns.append(time.perf_counter_ns() - start)
            answers[at, : len(found)] = found
    spent = clock.spent()
    return {
        "answers": answers,
        "qps": len(times_ns) / spent.wall,
        "cpu-us": spent.process / len(times_ns) * 1e6,
        "thread-cpu-us": spent.thread / len(times_ns) * 1e6,
        "query-us": percentiles_us(np.array(times_ns)),
    }
