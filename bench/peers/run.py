"""Measures our index and others side by side; README.md says what each figure means."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from adapters import PEERS, chosen
from environments import FAILURES, python_of
from harness import process, report, truth
from harness.task import Task

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Name: folder, metric, the command that makes it.
SETS = {
    "glove": ("data/glove100", "cosine", "make data"),
    "sift": ("data/sift128", "l2", "make data-sift"),
    "text": ("data/text384", "cosine", "make data-text TEXT_ROWS=0"),
}


def main() -> None:
    """Run every peer in turn, then write the table and the JSON."""
    options = _options()
    peers = chosen(options.peers)
    available = _available(options)
    if options.rows > available:
        sys.exit(f"{options.folder} has {available:,} rows: choose ROWS up to that.")
    tuned = f"-{options.target:g}" if options.workload == "mixed" else ""
    out = options.out / f"{options.data}-{options.workload}-{options.rows}{tuned}"
    out.mkdir(parents=True, exist_ok=True)
    # Before any peer is measured: it takes all cores.
    for rows in sorted({PEERS[peer].rows(options.rows) for peer in peers}):
        _truth(options, rows)
    run: dict[str, Any] = {
        "data": options.data,
        "workload": options.workload,
        "rows": options.rows,
        "k": options.k,
        "queries": options.queries,
        "target": options.target,
        "command": _command(options),
        "commit": process.commit(),
        "date": process.now(),
        "machine": process.machine(),
        "box-s": options.box,
        "seconds": options.seconds,
        "load-before": os.getloadavg()[0],
    }
    rows_of = _earlier(out / "results.json") if options.keep else {}
    for peer in peers:
        print(f"{peer} ...", end=" ", flush=True)
        rows_of[peer] = {
            "commit": run["commit"],
            "date": process.now(),
            **_measure(peer, options, out),
        }
        print(rows_of[peer].get("error", "done"), flush=True)
    every = [rows_of[peer] for peer in PEERS if peer in rows_of]
    run |= {"load-after": os.getloadavg()[0], "peers": every}
    (out / "results.json").write_text(json.dumps(run, indent=1))
    (out / "table.md").write_text(report.table(run))
    print(f"\n{report.table(run)}\nwritten to {out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="glove", help="glove, sift, text, or a name for --folder")
    parser.add_argument("--folder", type=Path, help="another data set")
    parser.add_argument("--metric", choices=["l2", "cosine"], help="of that data set")
    parser.add_argument("--workload", choices=["static", "mixed"], default="static")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--peers", default="all", help="names, or: all, libraries, databases")
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--target", type=float, default=0.95, help="recall that mixed is about")
    parser.add_argument("--seconds", type=float, default=60, help="longest stream or sweep")
    parser.add_argument("--box", type=float, default=300, help="seconds per peer in all")
    parser.add_argument("--keep", action="store_true", help="keep earlier rows of other peers")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if options.data in SETS and options.folder is None:
        folder, options.metric, options.make = SETS[options.data]
        options.folder = ROOT / folder
    elif options.folder is None or options.metric is None:
        parser.error(f"choose --data of {', '.join(SETS)}, or give --folder and --metric")
    else:
        options.make = "what makes it"
    if options.rows < 1_000 or options.queries < 20:
        parser.error("use at least 1,000 rows and 20 queries")
    return options


def _available(options: argparse.Namespace) -> int:
    """Return how many rows the data set has."""
    meta = options.folder / "meta.json"
    if not meta.exists():
        sys.exit(f"There is no data set in {options.folder}: run `{options.make}` first.")
    rows: int = json.loads(meta.read_text())["base-rows"]
    return rows


def _truth(options: argparse.Namespace, rows: int) -> Path:
    cache = options.out / "truth"
    return truth.make(options.folder, options.metric, rows, options.queries, options.k, cache)


def _earlier(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {row["peer"]: row for row in json.loads(path.read_text())["peers"]}


def _measure(peer: str, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Run one peer in its own process; whatever goes wrong is its row."""
    entry = PEERS[peer]
    if options.workload == "mixed" and not entry.streams:
        return {"peer": peer, "error": "static only, it cannot delete"}
    reason = json.loads(FAILURES.read_text()).get(peer) if FAILURES.exists() else None
    if reason:
        return {"peer": peer, "error": reason}
    if not python_of(peer).exists():
        return {"peer": peer, "error": "its environment was not made: run install.py"}
    rows = entry.rows(options.rows)
    log = out / f"{peer}.log"
    with tempfile.TemporaryDirectory() as beside:
        task_file, result = Path(beside) / "task.json", Path(beside) / "result.json"
        scratch = Path(beside) / "scratch"
        scratch.mkdir()
        Task(
            peer=peer,
            workload=options.workload,
            folder=str(options.folder),
            truth=str(_truth(options, rows)),
            scratch=str(scratch),
            metric=options.metric,
            rows=rows,
            queries=options.queries,
            k=options.k,
            target=options.target,
            seconds=options.seconds,
        ).write(task_file)
        command = [str(HERE / "child.py"), str(task_file), str(result)]
        code = process.run(command, peer, log, options.box)
        if code == 0:
            asked = {"rows-asked": options.rows, "is-database": entry.is_database}
            return {**json.loads(result.read_text()), **asked}
    if code is None:
        return {"peer": peer, "error": f"not finished within {options.box:.0f} s at {rows:,} rows"}
    return {"peer": peer, "error": f"ended with code {code}: {process.last_words(log)}"}


def _command(options: argparse.Namespace) -> str:
    words = ["make", "bench-peers", f"DATA={options.data}", f"WORKLOAD={options.workload}"]
    words += [f"ROWS={options.rows}", f"TARGET={options.target:g}"]
    words += [f"SECONDS={options.seconds:g}", f"BOX={options.box:g}", f"PEERS={options.peers}"]
    return shlex.join(words)


if __name__ == "__main__":
    main()
