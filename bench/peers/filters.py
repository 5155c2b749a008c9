"""Measures search with filters, our index and others side by side; README.md says how."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from environments import FAILURES, python_of
from filtered import report, truth
from filtered.adapters import NAMES, chosen, package
from harness import process
from run import SETS

HERE = Path(__file__).resolve().parent
# Libraries that count their threads by variables of their own. With one thread for files
# (LANCE_IO_THREADS), lance waits for ever.
_THREADS = ("LANCE_CPU_THREADS",)


def main() -> None:
    """Run every index in turn, then write the table and the JSON."""
    options = _options()
    peers = chosen(options.peers)
    settled = f"-warm-{options.warm}" if options.warm else ""
    out = options.out / f"filters-{options.data}-{options.rows}{settled}"
    out.mkdir(parents=True, exist_ok=True)
    # Before any index is measured: it takes all cores.
    kept = _truth(options)
    run: dict[str, Any] = {
        "data": options.data,
        "workload": "filters",
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
        "warm": options.warm,
        "attributes": json.loads((options.folder / "attributes.json").read_text()),
        "load-before": os.getloadavg()[0],
    }
    rows_of = _earlier(out / "results.json") if options.keep else {}
    for peer in peers:
        print(f"{peer} ...", end=" ", flush=True)
        found = _measure(peer, options, kept, out)
        rows_of[peer] = {"commit": run["commit"], "date": process.now(), **found}
        print(found.get("error", "done"), flush=True)
    every = [rows_of[peer] for peer in NAMES if peer in rows_of]
    run |= {"load-after": os.getloadavg()[0], "peers": every}
    (out / "results.json").write_text(json.dumps(run, indent=1))
    (out / "table.md").write_text(report.table(run))
    print(f"\n{report.table(run)}\nwritten to {out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="glove", help="glove, text, or a name for --folder")
    parser.add_argument("--folder", type=Path, help="another data set, with attributes")
    parser.add_argument("--metric", choices=["l2", "cosine"], help="of that data set")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--peers", default="all", help=f"all, or of {', '.join(NAMES)}")
    parser.add_argument("--queries", type=int, default=300, help="per class of filters")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--target", type=float, default=0.95, help="recall to compare at")
    parser.add_argument("--seconds", type=float, default=30, help="longest sweep of a class")
    parser.add_argument("--box", type=float, default=2_400, help="seconds per index in all")
    parser.add_argument("--warm", type=int, default=0, help="queries of a class that come first")
    parser.add_argument("--keep", action="store_true", help="keep earlier rows of other indexes")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if options.folder is None and options.data in SETS:
        folder, options.metric, _ = SETS[options.data]
        options.folder = process.ROOT / folder
    elif options.folder is None or options.metric is None:
        parser.error(f"choose --data of {', '.join(SETS)}, or give --folder and --metric")
    if options.rows < 1_000 or options.queries < 20:
        parser.error("use at least 1,000 rows and 20 queries")
    return options


def _truth(options: argparse.Namespace) -> Path:
    described = options.folder / "attributes.json"
    if not described.exists():
        sys.exit(f"{options.folder} has no attributes: run `make data-attributes` first.")
    available = json.loads(described.read_text())["rows"]["base"]
    if options.rows > available:
        sys.exit(f"{options.folder} has {available:,} rows: choose ROWS up to that.")
    cache = options.out / "truth"
    return truth.make(
        options.folder, options.metric, options.rows, options.queries, options.k, cache
    )


def _earlier(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {row["peer"]: row for row in json.loads(path.read_text())["peers"]}


def _measure(peer: str, options: argparse.Namespace, kept: Path, out: Path) -> dict[str, Any]:
    """Run one index in its own process; whatever goes wrong is its row."""
    reason = json.loads(FAILURES.read_text()).get(package(peer)) if FAILURES.exists() else None
    if reason:
        return {"peer": peer, "error": reason}
    if not python_of(package(peer)).exists():
        return {"peer": peer, "error": "its environment was not made: run install.py"}
    log = out / f"{peer}.log"
    with tempfile.TemporaryDirectory() as beside:
        task, result = Path(beside) / "task.json", Path(beside) / "result.json"
        scratch = Path(beside) / "scratch"
        scratch.mkdir()
        told = {
            "peer": peer,
            "folder": str(options.folder.resolve()),
            "truth": str(kept.resolve()),
            "scratch": str(scratch),
            "metric": options.metric,
            "rows": options.rows,
            "k": options.k,
            "target": options.target,
            "seconds": options.seconds,
            "warm": options.warm,
        }
        task.write_text(json.dumps(told))
        command = [str(HERE / "filters_child.py"), str(task), str(result)]
        code = process.run(command, package(peer), log, options.box, *_THREADS)
        if code == 0:
            found: dict[str, Any] = json.loads(result.read_text())
            return found
    if code is None:
        return {"peer": peer, "error": f"not finished within {options.box:.0f} s"}
    return {"peer": peer, "error": f"ended with code {code}: {process.last_words(log)}"}


def _command(options: argparse.Namespace) -> str:
    words = ["make", "bench-filters", f"DATA={options.data}", f"ROWS={options.rows}"]
    words += [f"TARGET={options.target:g}", f"QUERIES={options.queries}"]
    words += [f"SECONDS={options.seconds:g}", f"BOX={options.box:g}", f"PEERS={options.peers}"]
    words += [f"WARM={options.warm}"] if options.warm else []
    return shlex.join(words)


if __name__ == "__main__":
    main()
