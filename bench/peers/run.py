"""Measures our index and others side by side; README.md says what each figure means."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from adapters import PEERS
from harness import plot, report
from harness.task import Task

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Name: folder, metric, the command that makes it.
SETS = {
    "glove": ("data/glove100", "cosine", "make data"),
    "sift": ("data/sift128", "l2", "make data-sift"),
}
# Libraries that would start threads of their own for a single call.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def main() -> None:
    """Run every peer in turn, then write the table, the JSON and the picture."""
    options = _options()
    folder, metric, command = SETS[options.data]
    if not (ROOT / folder / "meta.json").exists():
        sys.exit(f"There is no data set in {folder}: run `{command}` first.")
    available = json.loads((ROOT / folder / "meta.json").read_text())["base-rows"]
    if options.rows > available:
        sys.exit(f"{folder} has {available:,} rows: choose ROWS up to that.")
    tuned = f"-{options.target:g}" if options.workload == "mixed" else ""
    out = HERE / "results" / f"{options.data}-{options.workload}-{options.rows}{tuned}"
    out.mkdir(parents=True, exist_ok=True)
    run: dict[str, Any] = {
        "data": options.data,
        "workload": options.workload,
        "rows": options.rows,
        "k": options.k,
        "queries": options.queries,
        "command": _command(options),
        "commit": _commit(),
        "date": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _machine(),
        "load-before": os.getloadavg()[0],
    }
    rows = []
    for peer in options.peers:
        print(f"{peer} ...", end=" ", flush=True)
        rows.append(_measure(peer, options, str(ROOT / folder), metric, out))
        print(rows[-1].get("error", "done"), flush=True)
    run |= {"load-after": os.getloadavg()[0], "peers": rows}
    (out / "results.json").write_text(json.dumps(run, indent=1))
    (out / "table.md").write_text(report.table(run))
    plot.draw(run, out / "plot.png")
    print(f"\n{report.table(run)}\nwritten to {out.relative_to(ROOT)}")


def _options() -> argparse.Namespace:
    defaults = ",".join(name for name, entry in PEERS.items() if entry.is_default)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=SETS, default="glove")
    parser.add_argument("--workload", choices=["static", "mixed"], default="static")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--peers", default=defaults, help=f"of {', '.join(PEERS)}")
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--target", type=float, default=0.95, help="recall that mixed is tuned to")
    parser.add_argument("--seconds", type=float, default=60, help="longest stream or sweep")
    parser.add_argument("--box", type=float, default=300, help="seconds per peer in all")
    options = parser.parse_args()
    options.peers = options.peers.replace(",", " ").split()
    unknown = [name for name in options.peers if name not in PEERS]
    if unknown:
        parser.error(f"no peer is called {', '.join(unknown)}: choose of {', '.join(PEERS)}")
    if options.rows < 1_000:
        parser.error("use at least 1,000 rows")
    return options


def _measure(
    peer: str, options: argparse.Namespace, folder: str, metric: str, out: Path
) -> dict[str, Any]:
    """Run one peer in its own process; whatever goes wrong is its row."""
    entry = PEERS[peer]
    if options.workload == "mixed" and not entry.streams:
        return {"peer": peer, "error": "static only, it cannot delete"}
    reason = _not_installed(entry.package)
    if reason:
        return {"peer": peer, "error": reason}
    rows = min(options.rows, entry.rows_max or options.rows)
    task = Task(
        peer=peer,
        workload=options.workload,
        folder=folder,
        metric=metric,
        rows=rows,
        queries=options.queries,
        k=options.k,
        target=options.target,
        seconds=options.seconds,
    )
    log = out / f"{peer}.log"
    with tempfile.TemporaryDirectory() as beside:
        task_file, result = Path(beside) / "task.json", Path(beside) / "result.json"
        task.write(task_file)
        code = _child([str(task_file), str(result)], log, options.box)
        if code == 0:
            return {**json.loads(result.read_text()), "rows-asked": options.rows}
    if code is None:
        return {"peer": peer, "error": f"not finished within {options.box:.0f} s at {rows:,} rows"}
    last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    return {"peer": peer, "error": f"ended with code {code}: {last}"}


def _child(arguments: list[str], log: Path, box_s: float) -> int | None:
    """Return the exit code, None if the time was up. No process of the child is left behind."""
    environment = os.environ | dict.fromkeys(THREADS, "1")
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, HERE / "child.py", *arguments],
            cwd=HERE,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=box_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _not_installed(package: str | None) -> str | None:
    """Return what pip said when the package was installed, None if it went well."""
    failures = Path(sys.prefix) / "failed.json"
    if package is None or not failures.exists():
        return None
    said = json.loads(failures.read_text()).get(package)
    return None if said is None else f"{package} does not install here: {said}"


def _command(options: argparse.Namespace) -> str:
    words = ["make", "bench-peers", f"DATA={options.data}", f"WORKLOAD={options.workload}"]
    words += [f"ROWS={options.rows}", f"TARGET={options.target}"]
    words.append(f"PEERS={' '.join(options.peers)}")
    return shlex.join(words)


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _machine() -> dict[str, Any]:
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


if __name__ == "__main__":
    main()
