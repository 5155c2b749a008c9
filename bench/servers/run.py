"""Servers beside each other: the same rows and queries over loopback, each server on one core.

A system is filled, asked with the least effort that finds as much as ours does, as fast as four
connections can, then at 100 queries per second with nothing beside them and while rows come.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from systems import Chroma, K, System, VStream
from traffic import at_rate, beside, closed, write

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 1_000
"""Rows of a request."""

RATE = 100
"""Queries per second whose times are taken."""

SERVER, CLIENT = 0, 1
"""Their cores."""


def read(path: Path, rows: int) -> np.ndarray:
    """Return the first rows of a file of vectors, each of length 1."""
    count, dimension = np.fromfile(path, dtype=np.uint32, count=2)
    rows = min(rows, int(count))
    values = np.fromfile(path, dtype=np.float32, count=rows * int(dimension), offset=8)
    matrix = values.reshape(rows, int(dimension))
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-30)


def nearest(base: np.ndarray, queries: np.ndarray) -> list[set[int]]:
    """Return the ids of the nearest rows of each query."""
    out = []
    for query in queries:
        alike = base @ query
        out.append({int(one) for one in np.argpartition(-alike, K)[:K]})
    return out


@contextmanager
def started(system: System, programs: Path, folder: Path) -> Iterator[int]:
    """Start a server on its core; yield its port."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = system.command(programs, folder / "rows", port)
    environment = os.environ | {"ANONYMIZED_TELEMETRY": "False"}
    with (folder / "server.log").open("w") as log:
        pinned = ["taskset", "-c", str(SERVER), *command]
        process = subprocess.Popen(pinned, stdout=log, stderr=log, env=environment)
        try:
            end = time.monotonic() + 120
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{system.name} does not start: {folder / 'server.log'}")
                time.sleep(0.2)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def measure(
    system: System,
    programs: Path,
    folder: Path,
    base: np.ndarray,
    queries: np.ndarray,
    truth: list[set[int]],
    options: argparse.Namespace,
    wanted: float,
) -> dict[str, Any]:
    """Measure one system; it has to find as much as ``wanted``."""
    with started(system, programs, folder) as port:
        system.create(port, base.shape[1])
        spent = 0.0
        # Made before the clock starts, some at a time: it is the server that is measured.
        for part in range(0, len(base), 40 * BATCH):
            firsts = range(part, min(part + 40 * BATCH, len(base)), BATCH)
            requests = [system.points(one, base[one : one + BATCH]) for one in firsts]
            spent += write(lambda: system.connect(port), requests, 2)
        begun = time.perf_counter()
        system.filled(port)
        filled = time.perf_counter() - begun
        recall, effort, questions = 0.0, None, []
        for effort in system.efforts:
            system.tune(port, effort)
            questions = [system.question(query, effort) for query in queries]
            # Ours learns how far to go from the queries that it gets.
            closed(lambda: system.connect(port), questions, options.phase)
            connection = system.connect(port)
            found = [set(system.ids(connection.send(one))) for one in questions]
            hits = sum(len(a & b) for a, b in zip(found, truth, strict=True))
            recall = hits / (K * len(truth))
            print(f"{system.name}: effort {effort}, recall {recall:.4f}", flush=True)
            if recall >= wanted:
                break
        per_s = closed(lambda: system.connect(port), questions, options.phase)
        idle = at_rate(system.connect(port), questions, RATE, 2 * options.phase)
        streams = []
        for rate in options.rates:
            random = np.random.default_rng(rate)
            first = 2 * len(base) + 1_000_000 * rate
            many = range(20 * options.phase)
            rows = [base[random.integers(len(base), size=rate // 10)] for _ in many]
            writes = [system.points(first + at * len(one), one) for at, one in enumerate(rows)]
            times, answered = beside(
                lambda: system.connect(port), questions, writes, 2 * options.phase, RATE
            )
            came = answered * (rate // 10) / (2 * options.phase)
            streams.append({"rate": rate, "came": came, "times": times})
    return {
        "name": system.name,
        "rows_per_s": len(base) / spent,
        "indexed_s": filled,
        "effort": effort,
        "recall": recall,
        "per_s": per_s,
        "idle": idle,
        "beside": streams,
    }


def ms(times: list[float]) -> str:
    """Return the median and the 99th percentile."""
    p50, p99 = np.percentile(times, [50, 99])
    return f"{1e3 * p50:.2f} / {1e3 * p99:.2f}"


def table(rows: int, dimension: int, measured: list[dict[str, Any]]) -> str:
    """Make the table that people read."""
    first = measured[0]
    head = (
        f"{rows:,} rows of {dimension} dimensions; each server on one core, the client on another."
    )
    lines = [
        f"{head} Times in ms, p50 / p99, from when a query was due.",
        "",
        "| | " + " | ".join(one["name"] for one in measured) + " |",
        "|---|" + "---|" * len(measured),
    ]

    def row(what: str, values: list[str]) -> None:
        lines.append(f"| {what} | " + " | ".join(values) + " |")

    row("rows/s written, 1,000 in a request", [f"{one['rows_per_s']:,.0f}" for one in measured])
    row("s then until it can be asked", [f"{one['indexed_s']:.1f}" for one in measured])
    row("effort", [str(one["effort"] or "its own") for one in measured])
    row(f"recall@{K}", [f"{one['recall']:.4f}" for one in measured])
    row("queries/s, 4 connections", [f"{one['per_s']:,.0f}" for one in measured])
    row(
        "ours are so many times as many",
        [f"{first['per_s'] / one['per_s']:.1f}" for one in measured],
    )
    row(f"{RATE} queries/s, nothing else", [ms(one["idle"]) for one in measured])
    for at, stream in enumerate(first["beside"]):
        values = []
        for one in measured:
            times = one["beside"][at]["times"]
            ratio = np.percentile(times, 99) / np.percentile(one["idle"], 99)
            came = one["beside"][at]["came"]
            values.append(f"{ms(times)}; p99 {ratio:.2f} x idle ({came:,.0f}/s came)")
        row(f"the same, beside {stream['rate']:,} rows/s", values)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all systems and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data/glove100"))
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--phase", type=int, default=10, help="seconds")
    parser.add_argument("--rates", type=int, nargs="+", default=[500])
    parser.add_argument("--vstream", type=Path, default=Path("target/release"))
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers/environments"))
    parser.add_argument("--peers", nargs="*", default=["chroma", "milvus_lite"])
    parser.add_argument("--out", type=Path, default=Path("run/servers"))
    options = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT})
    base = read(options.data / "base.fbin", options.rows)
    queries = read(options.data / "query.fbin", options.queries)
    truth = nearest(base, queries)
    systems: list[tuple[System, Path]] = [(VStream(), options.vstream)]
    if "chroma" in options.peers:
        systems.append((Chroma(), options.environments / "chroma" / "bin"))
    if "milvus_lite" in options.peers:
        from milvus import MilvusLite

        systems.append((MilvusLite(), options.environments / "milvus_lite" / "bin"))
    measured: list[dict[str, Any]] = []
    for system, programs in systems:
        wanted = measured[0]["recall"] if measured else 0.0
        folder = options.out / system.name.split()[0]
        measured.append(measure(system, programs, folder, base, queries, truth, options, wanted))
        raw = {"rows": len(base), "systems": measured}
        (options.out / "servers.json").write_text(json.dumps(raw))
        (options.out / "servers.md").write_text(table(*base.shape, measured))
    print((options.out / "servers.md").read_text())


if __name__ == "__main__":
    main()
