"""Single records on one thread: [insert x3, delete a random live row, query], over and over.

1. On the preloaded rows the least efforts are found that reach some recalls around the target.
2. The queries of the stream take these efforts in turn, so that all of them meet the same index.
3. The speed with one effort is that of a stream whose queries all take it: the mean time of an
   insert, of a delete and of the loop around them, and of the queries with that effort. Over the
   efforts these times add up to the time that the stream took.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.data import Distances, F32Array, hits, margin
from harness.measure import Clock, Spent, percentiles_us
from harness.plan import INSERTS_PER_CYCLE, Plan
from harness.truth import LiveTruth, Truth
from harness.tune import Tuner

if TYPE_CHECKING:
    from adapters.peer import Peer
    from harness.task import Task

_RECALL_MAX = 0.997
# Answers of one effort that are compared with the truth; even spaces between them.
_SAMPLES = 5_000
_IDLE_QUERIES = 5_000
_IDLE_SECONDS = 10
# Cycles between two looks at the deadline.
_STRIDE = 32
_SEED = 42


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream left behind: nanoseconds per operation, and every answer.

    Attributes
    ----------
    turns
        Which effort each query used.
    switching_ns
        Time that went into changing the effort; of no peer's making, so it is not counted.
    """

    cycles: int
    turns: NDArray[np.int64]
    inserts_ns: NDArray[np.int64]
    deletes_ns: NDArray[np.int64]
    queries_ns: NDArray[np.int64]
    switching_ns: int
    answers: NDArray[np.int64]
    spent: Spent

    def loop_ns(self) -> float:
        """Mean time of a cycle that went into no operation."""
        timed = self.inserts_ns.sum() + self.deletes_ns.sum() + self.queries_ns.sum()
        return (self.spent.wall * 1e9 - float(timed) - self.switching_ns) / max(self.cycles, 1)


def run(
    peer: Peer, rows: F32Array, queries: F32Array, task: Task, plan: Plan, truth: Truth
) -> dict[str, Any]:
    """Tune on the preloaded rows, look at idle queries, then stream."""
    half = len(queries) // 2
    distances = Distances(rows, task.metric)
    live = LiveTruth(truth, plan, distances, queries)
    efforts = _efforts(peer, distances, queries[:half], live, task)
    idle = _idle(peer, queries[half:], efforts, task.k)
    stream = _stream(peer, rows, queries[half:], task, plan, efforts)
    points, dead = [], 0
    for at, effort in enumerate(efforts):
        cycles = np.flatnonzero(stream.turns == at)
        if len(cycles) == 0:
            continue
        found, lost = _recall(stream, cycles, distances, queries, live, plan)
        dead += lost
        query_us = percentiles_us(stream.queries_ns[cycles])
        point = {"effort": effort if peer.effort_max else "auto", **found}
        point |= {"ops-per-s": _ops_per_s(stream, query_us["mean"]), "query-us": query_us}
        points.append({**point, "idle-query-us": percentiles_us(idle[at])})
    operations = stream.cycles * (INSERTS_PER_CYCLE + 2)
    return {
        "points": points,
        "dead": dead,
        "operations": operations,
        "is-whole": stream.cycles == len(plan.deletes),
        "ops-per-s": operations / stream.spent.wall,
        "ops-per-cpu-s": operations / stream.spent.process,
        "ops-per-thread-cpu-s": operations / stream.spent.thread,
        "insert-us": percentiles_us(stream.inserts_ns),
        "delete-us": percentiles_us(stream.deletes_ns),
        "live-rows": plan.preload + stream.cycles * (INSERTS_PER_CYCLE - 1),
    }


def _efforts(
    peer: Peer, distances: Distances, queries: F32Array, live: LiveTruth, task: Task
) -> list[Any]:
    """Return the efforts that the stream uses in turn, least first."""
    queries = queries[: peer.queries_max]
    peer.set_effort(peer.effort_min)
    peer.warm(queries, task.k)
    kth = live.kth_preloaded(len(queries), task.k)
    tuner = Tuner(peer, distances, queries, kth, task.k)
    wanted = [min(task.target + offset, _RECALL_MAX) for offset in peer.recall_offsets]
    efforts = sorted({tuner.least(recall) for recall in wanted})
    if len(efforts) == 1 < len(wanted):
        # What scans few rows has one recall for all efforts, until it does not.
        doubled = (min(efforts[0] << shift, peer.effort_max) for shift in range(len(wanted)))
        efforts = sorted(set(doubled))
    for effort in efforts:
        print(f"effort {effort}: recall {tuner.recall_at(effort):.4f} on the preloaded rows")
    peer.set_effort(efforts[0])
    return efforts


def _idle(peer: Peer, queries: F32Array, efforts: list[Any], k: int) -> list[NDArray[np.int64]]:
    """Return times of queries while nothing is written, per effort."""
    found = []
    for effort in efforts:
        peer.set_effort(effort)
        times_ns: list[int] = []
        deadline = time.perf_counter() + _IDLE_SECONDS
        while len(times_ns) < _IDLE_QUERIES and time.perf_counter() < deadline:
            query = queries[len(times_ns) % len(queries)]
            start = time.perf_counter_ns()
            peer.query(query, k)
            times_ns.append(time.perf_counter_ns() - start)
        found.append(np.array(times_ns, dtype=np.int64))
    return found


def _stream(
    peer: Peer, rows: F32Array, queries: F32Array, task: Task, plan: Plan, efforts: list[Any]
) -> Stream:
    cycles = len(plan.deletes)
    inserts_ns = np.zeros(cycles * INSERTS_PER_CYCLE, dtype=np.int64)
    deletes_ns = np.zeros(cycles, dtype=np.int64)
    queries_ns = np.zeros(cycles, dtype=np.int64)
    answers = np.full((cycles, task.k), -1, dtype=np.int64)
    deletes = plan.deletes.tolist()
    # By chance, so that every query meets every effort.
    turns = np.random.default_rng(_SEED).integers(len(efforts), size=cycles)
    turn = turns.tolist()
    peer.set_effort(efforts[0])
    now = time.perf_counter_ns
    deadline = now() + int(task.seconds * 1e9)
    done, switching_ns = cycles, 0
    clock = Clock()
    for cycle, deleted in enumerate(deletes):
        if cycle % _STRIDE == 0 and now() > deadline:
            done = cycle
            break
        for one in plan.inserts(cycle):
            row = rows[one]
            start = now()
            peer.insert(one, row)
            inserts_ns[one - plan.preload] = now() - start
        start = now()
        peer.delete(deleted)
        deletes_ns[cycle] = now() - start
        if len(efforts) > 1:
            start = now()
            peer.set_effort(efforts[turn[cycle]])
            switching_ns += now() - start
        query = queries[cycle % len(queries)]
        start = now()
        found = peer.query(query, task.k)
        queries_ns[cycle] = now() - start
        answers[cycle, : len(found)] = found
    return Stream(
        cycles=done,
        turns=turns[:done],
        inserts_ns=inserts_ns[: done * INSERTS_PER_CYCLE],
        deletes_ns=deletes_ns[:done],
        queries_ns=queries_ns[:done],
        switching_ns=switching_ns,
        answers=answers[:done],
        spent=clock.spent(),
    )


def _ops_per_s(stream: Stream, query_us: float) -> float:
    """Operations per second of a stream whose queries take `query_us` on average."""
    inserts_ns = INSERTS_PER_CYCLE * float(stream.inserts_ns.mean())
    cycle_ns = inserts_ns + float(stream.deletes_ns.mean()) + stream.loop_ns() + query_us * 1e3
    return (INSERTS_PER_CYCLE + 2) * 1e9 / cycle_ns


def _recall(
    stream: Stream,
    cycles: NDArray[np.int64],
    distances: Distances,
    queries: F32Array,
    live: LiveTruth,
    plan: Plan,
) -> tuple[dict[str, Any], int]:
    """Compare a sample of the answers with the rows that lived at that moment.

    Returns the mean recall with the margin of its 95 % confidence interval, in which answers to one
    query count as one; and how many returned rows did not live.
    """
    half, k = len(queries) // 2, stream.answers.shape[1]
    asked = len(queries) - half
    sample = cycles[np.unique(np.linspace(0, len(cycles) - 1, _SAMPLES).astype(np.int64))]
    dead = 0
    by_query: dict[int, list[float]] = {}
    for cycle in sample.tolist():
        query = half + cycle % asked
        answer = stream.answers[cycle]
        answer = answer[answer >= 0]
        lives = plan.is_live(answer, cycle)
        dead += int(np.count_nonzero(~lives))
        kth = live.kth(query, cycle, k)
        found = min(hits(distances, queries[query], answer[lives], kth), k)
        by_query.setdefault(query, []).append(found / k)
    means = np.array([np.mean(found) for found in by_query.values()])
    every = [one for found in by_query.values() for one in found]
    return {"recall": float(np.mean(every)), "recall-margin": margin(means)}, dead
