"""Disk indexes of others over the same rows: the wheel of DiskANN, and LanceDB.

`disk_peers.py FOLDER ROWS QUERIES SCRATCH OUT.json BOX_S [PEER...]` makes an environment for each
peer beside the harness's, installs what the peer needs, and measures it in a process of its own,
for BOX_S seconds at most. A peer that does not install, or does not run, is in the results with
the reason.

Each is asked one query at a time by one thread. Reads are those that the kernel counts for the
process, in units of 4 KiB: past the page cache for DiskANN, behind it for LanceDB.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

K = 10
RECALLS = (0.90, 0.95, 0.98)
# What a peer needs, pinned. The wheel of DiskANN asks for the numpy of its time.
PACKAGES = {
    "diskannpy": ("diskannpy==0.7.0", "numpy==1.25.0"),
    "lancedb": ("lancedb==0.40.0", "numpy==2.4.6"),
}
Point = dict[str, float | None]


def main_of(arguments: list[str]) -> None:
    """Measure all peers; or one, in its own environment, as `child`."""
    if arguments[0] == "child":
        print(json.dumps(child(*arguments[1:])))
        return
    folder, rows, queries, scratch, out, box_s, *names = arguments
    found = []
    for name in names or PACKAGES:
        at = Path(scratch) / name
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir(parents=True)
        found.append(measured(name, [folder, rows, queries, str(at)], int(box_s)))
        shutil.rmtree(at)
    Path(out).write_text(json.dumps(found, indent=1) + "\n")


def measured(name: str, arguments: list[str], box_s: int) -> dict[str, Any]:
    """Install a peer and measure it; return its figures or the reason why there are none."""
    python = Path(sys.prefix) / "environments" / f"disk-{name}" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
    command = [python, "-m", "pip", "install", "-q", *PACKAGES[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"name": name, "error": f"does not install here: {last_words(done.stderr)}"}
    variables = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    child_command = [python, Path(__file__), "child", name, *arguments]
    try:
        done = subprocess.run(
            child_command, capture_output=True, text=True, check=False, env=variables, timeout=box_s
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        return {"name": name, "error": f"its {box_s} s were up; it said: {last_words(said)}"}
    if done.returncode:
        return {"name": name, "error": f"fails: {last_words(done.stderr)}"}
    return json.loads(done.stdout.splitlines()[-1])


def last_words(text: str) -> str:
    """Return the last line that says something."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["it said nothing"])[-1]


def at_recall(points: list[Point], recall: float) -> Point | None:
    """Return the cost at a recall, on the line between the two points around it."""
    for low, high in zip([None, *points[:-1]], points, strict=True):
        if high["recall"] < recall:
            continue
        if low is None:
            return high
        part = (recall - low["recall"]) / (high["recall"] - low["recall"])
        pairs = {key: (low[key], high[key]) for key in high}
        return {
            key: None if None in pair else pair[0] + part * (pair[1] - pair[0])
            for key, pair in pairs.items()
        }
    return None


def child(name: str, folder: str, rows: str, queries: str, scratch: str) -> dict[str, Any]:
    """Build and sweep one peer, in its own environment."""
    import numpy as np

    def matrix(path: Path, most: int) -> Any:
        head = np.fromfile(path, dtype="<u4", count=2)
        shape = (min(int(head[0]), most), int(head[1]))
        return np.memmap(path, dtype="<f4", mode="r", offset=8, shape=shape)

    base = np.ascontiguousarray(matrix(Path(folder) / "base.fbin", int(rows)))
    asked = np.ascontiguousarray(matrix(Path(folder) / "query.fbin", int(queries)))
    half = len(asked) // 2
    norms = (base * base).sum(axis=1)
    truth = []
    for query in asked[half:]:
        near = norms - 2 * (base @ query)
        kth = np.partition(near, K - 1)[K - 1]
        truth.append(set(np.flatnonzero(near <= kth + 1e-2).tolist()))
    make = {"diskannpy": diskannpy_index, "lancedb": lancedb_index}[name]
    shown, efforts, ask, memory = make(base, Path(scratch))
    disk = sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file())
    points: list[Point] = []
    for effort in efforts:
        for query in asked[:half]:
            ask(query, effort)
        before, begun, found = disk_reads(), time.perf_counter(), 0
        for query, true in zip(asked[half:], truth, strict=True):
            found += min(len(true & set(ask(query, effort))), K)
        seconds, after = time.perf_counter() - begun, disk_reads()
        kib = (after - before) / 1024 / half
        point = {"recall": found / K / half, "reads": kib / 4, "rounds": None}
        points.append({**point, "kib": kib, "ms": seconds * 1e3 / half})
        if points[-1]["recall"] > 0.985:
            break
    return {
        "name": shown,
        "rows": len(base),
        "memory": memory() / len(base),
        "disk": disk / len(base),
        "points": points,
        "at": [at_recall(points, recall) for recall in RECALLS],
    }


def disk_reads() -> int:
    """Return the bytes that this process has had read from the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes:")).split()[1])


def resident() -> int:
    """Return the bytes of memory of this process that are no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1]) << 10


def diskannpy_index(base: Any, scratch: Path) -> Any:
    """Build a graph with 32 bytes of product quantisation per row, and 12 bytes of hot nodes."""
    import diskannpy
    import numpy as np

    rows = base.astype(np.uint8)
    # The budget from which the library takes the bytes of a code.
    budget = 32 * len(rows) / (1 << 30)
    diskannpy.build_disk_index(
        data=rows,
        distance_metric="l2",
        index_directory=str(scratch),
        complexity=75,
        graph_degree=31,
        search_memory_maximum=budget,
        build_memory_maximum=4.0,
        num_threads=2,
        pq_disk_bytes=0,
        vector_dtype=np.uint8,
    )
    before = resident()
    # A node in memory is its row and its list.
    hot = 12 * len(rows) // (rows.shape[1] + 4 * 32)
    index = diskannpy.StaticDiskIndex(
        index_directory=str(scratch), num_threads=1, num_nodes_to_cache=hot, vector_dtype=np.uint8
    )
    held = resident() - before

    def ask(query: Any, effort: int) -> list[int]:
        found = index.search(query.astype(np.uint8), k_neighbors=K, complexity=effort, beam_width=4)
        return found.identifiers.tolist()

    name = f"diskannpy, codes of some 32 B, {hot:,} hot nodes (growth of the process)"
    return name, (10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320), ask, lambda: held


def lancedb_index(base: Any, scratch: Path) -> Any:
    """Build IVF-PQ, with exact distances for ten times as many rows as are asked for."""
    import math

    import lancedb
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(base.ravel()), base.shape[1])
    batch = pa.table({"id": pa.array(range(len(base))), "vector": vectors})
    table = lancedb.connect(str(scratch)).create_table("rows", batch)
    table.create_index(
        metric="l2", index_type="IVF_PQ", num_partitions=math.isqrt(len(base)), num_sub_vectors=32
    )
    before = resident()

    def ask(query: Any, effort: int) -> list[int]:
        search = table.search(query).distance_type("l2").nprobes(effort).refine_factor(10)
        return search.select(["id"]).limit(K).to_arrow()["id"].to_pylist()

    name = "LanceDB, IVF-PQ of 32 B, refine 10, page cache (growth of the process)"
    return name, (1, 2, 4, 8, 16, 32, 64, 128), ask, lambda: max(resident() - before, 0)


if __name__ == "__main__":
    main_of(sys.argv[1:])
