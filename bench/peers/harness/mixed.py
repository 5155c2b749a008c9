"""Single records on one thread: [insert x3, delete a random live row, query], over and over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.data import Distances, F32Array, hits
from harness.measure import Clock, Spent, percentiles_us
from harness.plan import INSERTS_PER_CYCLE, Plan
from harness.tune import Tuner

if TYPE_CHECKING:
    from adapters.peer import Peer
    from harness.task import Task

# Answers of the stream that are compared with the truth; even spaces between them.
_SAMPLES = 500
_IDLE_QUERIES = 2_000
# Cycles between two looks at the deadline.
_STRIDE = 32


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream left behind: nanoseconds per operation, and every answer."""

    cycles: int
    inserts_ns: NDArray[np.int64]
    deletes_ns: NDArray[np.int64]
    queries_ns: NDArray[np.int64]
    answers: NDArray[np.int32]
    spent: Spent


def run(peer: Peer, rows: F32Array, queries: F32Array, task: Task, plan: Plan) -> dict[str, Any]:
    """Tune on the preloaded rows, look at idle queries, then stream."""
    tuning, asked = queries[: len(queries) // 2], queries[len(queries) // 2 :]
    preloaded = Distances(rows[: plan.preload], task.metric)
    peer.set_effort(peer.effort_min)
    peer.warm(tuning, task.k)
    effort, tuned = Tuner(peer, preloaded, tuning, task.k).least(task.target)
    print(f"effort {effort}: recall {tuned:.4f} on the preloaded rows", flush=True)
    idle = _idle(peer, asked, task.k)
    stream = _stream(peer, rows, asked, task, plan)
    found, dead = _recall(stream, rows, asked, task, plan)
    operations = stream.cycles * (INSERTS_PER_CYCLE + 2)
    return {
        "effort": effort if peer.effort_max else "auto",
        "tuned-recall": tuned,
        "recall": found,
        "dead": dead,
        "operations": operations,
        "is-whole": stream.cycles == len(plan.deletes),
        "ops-per-s": operations / stream.spent.wall,
        "ops-per-cpu-s": operations / stream.spent.process,
        "ops-per-thread-cpu-s": operations / stream.spent.thread,
        "insert-us": percentiles_us(stream.inserts_ns),
        "delete-us": percentiles_us(stream.deletes_ns),
        "query-us": percentiles_us(stream.queries_ns),
        "idle-query-us": percentiles_us(idle),
    }


def _idle(peer: Peer, queries: F32Array, k: int) -> NDArray[np.int64]:
    times_ns = np.empty(_IDLE_QUERIES, dtype=np.int64)
    for at in range(_IDLE_QUERIES):
        query = queries[at % len(queries)]
        start = time.perf_counter_ns()
        peer.query(query, k)
        times_ns[at] = time.perf_counter_ns() - start
    return times_ns


def _stream(peer: Peer, rows: F32Array, queries: F32Array, task: Task, plan: Plan) -> Stream:
    cycles = len(plan.deletes)
    inserts_ns = np.zeros(cycles * INSERTS_PER_CYCLE, dtype=np.int64)
    deletes_ns = np.zeros(cycles, dtype=np.int64)
    queries_ns = np.zeros(cycles, dtype=np.int64)
    answers = np.full((cycles, task.k), -1, dtype=np.int32)
    deletes = plan.deletes.tolist()
    now = time.perf_counter_ns
    deadline = now() + int(task.seconds * 1e9)
    done = cycles
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
        query = queries[cycle % len(queries)]
        start = now()
        found = peer.query(query, task.k)
        queries_ns[cycle] = now() - start
        answers[cycle, : len(found)] = found
    return Stream(
        cycles=done,
        inserts_ns=inserts_ns[: done * INSERTS_PER_CYCLE],
        deletes_ns=deletes_ns[:done],
        queries_ns=queries_ns[:done],
        answers=answers[:done],
        spent=clock.spent(),
    )


def _recall(
    stream: Stream, rows: F32Array, queries: F32Array, task: Task, plan: Plan
) -> tuple[float, int]:
    """Compare a sample of the answers with all rows that were live at that moment.

    Returns the mean recall, and how many returned rows were not live.
    """
    if stream.cycles == 0:
        return 0.0, 0
    distances = Distances(rows, task.metric)
    sample = np.unique(np.linspace(0, stream.cycles - 1, _SAMPLES).astype(np.int64))
    found = dead = 0
    for cycle in sample.tolist():
        query, answer = queries[cycle % len(queries)], stream.answers[cycle]
        live = plan.live(cycle, len(rows))
        truth = np.where(live, distances.to_all(query[None])[0], np.inf)
        kth = float(np.partition(truth, task.k - 1)[task.k - 1])
        answer = answer[answer >= 0]
        dead += int(np.count_nonzero(~live[answer]))
        found += min(hits(distances, query, answer[live[answer]], kth), task.k)
    return found / (len(sample) * task.k), dead
