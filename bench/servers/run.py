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
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from harness.data import Distances, F32Array, read_fbin
from systems import Chroma, K, System, VStream
from traffic import at_rate, beside, closed, write

BATCH = 1_000
"""Rows of a request."""

RATE = 100
"""Queries per second whose times are taken."""

SERVER, CLIENT = 0, 1
"""Their cores."""


def unit(path: Path, rows: int) -> F32Array:
    """Return the first rows of a file of vectors, each of length 1."""
    matrix = read_fbin(path, rows)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-30)


def nearest(base: F32Array, queries: F32Array) -> list[set[int]]:
    """Return the ids of the nearest rows of each query."""
    distances = Distances(base, "cosine")
    every = (distances.to_all(query[None])[0] for query in queries)
    return [{int(one) for one in np.argpartition(gaps, K)[:K]} for gaps in every]


class Server:
    """A server on its core, until it is closed."""

    def __init__(self, system: System, programs: Path, folder: Path) -> None:
        """Start it on an empty folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._name, self._log = system.name, folder / "server.log"
        self._command = system.command(programs, folder / "rows", self.port)
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = ["taskset", "-c", str(SERVER), *self._command]
        environment = os.environ | {"ANONYMIZED_TELEMETRY": "False"}
        with self._log.open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        end = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise SystemExit(f"{self._name} does not start: {self._log}")
            time.sleep(0.2)

    def close(self) -> None:
        """End it, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """End it and start it again, with what it has."""
        self.close()
        self._process = self._started()


def measure(
    system: System,
    programs: Path,
    folder: Path,
    base: F32Array,
    queries: F32Array,
    truth: list[set[int]],
    options: argparse.Namespace,
    wanted: float,
) -> dict[str, Any]:
    """Measure one system; it has to find as much as ``wanted``."""
    with closing(Server(system, programs, folder)) as server:
        port = server.port
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
            if system.restarts_to_tune:
                server.restart()
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
        idle = ms(at_rate(system.connect(port), questions, RATE, 2 * options.phase))
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
            streams.append({"rate": rate, "came": came, "ms": ms(times)})
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


def ms(times: list[float]) -> list[float]:
    """Return the median and the 99th percentile, in ms."""
    return [1e3 * float(one) for one in np.percentile(times, [50, 99])]


def shown(times: list[float]) -> str:
    """Return both as people read them."""
    return f"{times[0]:.2f} / {times[1]:.2f}"


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
    row(f"{RATE} queries/s, nothing else", [shown(one["idle"]) for one in measured])
    for at, stream in enumerate(first["beside"]):
        values = []
        for one in measured:
            times, came = one["beside"][at]["ms"], one["beside"][at]["came"]
            ratio = times[1] / one["idle"][1]
            values.append(f"{shown(times)}; p99 {ratio:.2f} x idle ({came:,.0f}/s came)")
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
    base = unit(options.data / "base.fbin", options.rows)
    queries = unit(options.data / "query.fbin", options.queries)
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
