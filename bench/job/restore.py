"""Checkpoints of a large job, and its restore at another parallelism.

A job loads rows and then changes one in a hundred of them between two checkpoints. What each
checkpoint adds to its folder is what it uploaded. Then the job is stopped and started again from
the newest one with another number of partitions, and the time to its first answers is taken.
"""

import argparse
import collections
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

JOB = """
name: restore
parallelism: PARALLELISM
collection:
  dimension: 100
  metric: cosine
  encoder: {kind: cells}
  memory: MEMORY
vectors: {kind: generator, path: STREAM, preload: ROWS}
queries: {kind: generator, path: data/glove100/query.fbin, k: 10}
workload:
  ratio: {queries: 1, inserts: 15, deletes: 15}
  rate: RATE
  duration: 3600 s
results: {kind: blackhole}
checkpoint: {interval: INTERVAL s, path: CHECKPOINTS}
audit-share: 0.01
"""

CHANGED = 0.01
"""Share of the rows that changes between two checkpoints."""

PATIENCE = 1800
"""Seconds after which a run that does not get where it should is given up."""


class Run:
    """One run of the job, and what it wrote."""

    def __init__(self, arguments: argparse.Namespace, parallelism: int, *, restore: bool) -> None:
        """Start it."""
        out = arguments.out
        writes = arguments.rows * CHANGED / arguments.interval
        text = JOB.replace("PARALLELISM", str(parallelism)).replace("STREAM", arguments.stream)
        text = text.replace("ROWS", str(arguments.rows)).replace(
            "INTERVAL", str(arguments.interval)
        )
        text = text.replace("RATE", str(round(writes * 31 / 30)))
        text = text.replace("MEMORY", arguments.memory)
        text = text.replace("CHECKPOINTS", str(out / "checkpoints"))
        job = out / f"{parallelism}.yaml"
        job.write_text(text)
        self.lines = out / f"{parallelism}.jsonl"
        self.lines.unlink(missing_ok=True)
        command = [str(arguments.vstream), "run", str(job), f"--lines={self.lines}"]
        command += [f"--restore={out / 'checkpoints'}"] if restore else []
        self.began = time.monotonic()
        log = (out / f"{parallelism}.log").open("w")
        self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def last(self) -> dict:
        """Return the newest line of progress."""
        lines = self.lines.read_text().splitlines() if self.lines.exists() else []
        return json.loads(lines[-1]) if lines else {}

    def until(self, condition: Callable[[dict], bool]) -> float:
        """Wait until a line of progress fulfils the condition; return the seconds it took."""
        while not condition(self.last()):
            if self.process.poll() is not None or time.monotonic() - self.began > PATIENCE:
                raise SystemExit(f"The job did not get there: {self.lines.with_suffix('.log')}")
            time.sleep(0.05)
        return time.monotonic() - self.began

    def __enter__(self) -> "Run":
        """Nothing to do: it runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Interrupt it, as Ctrl-C does, whatever happened."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def files(folder: Path) -> dict[str, int]:
    """Return the files of a folder with their bytes; those that vanish meanwhile are left out."""
    found = {}
    # Unlike rglob, walk passes over folders that vanish.
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                path = Path(parent) / name
                found[str(path)] = path.stat().st_size
    return found


def completed(folder: Path) -> set[str]:
    """Return the names of the checkpoints that are complete."""
    return {path.parent.name for path in folder.glob("*/chk-*/_metadata")}


KINDS = {
    b"VSTRSEGM": "segments",
    b"VSTRWLOG": "logs",
    b"VSTRROWS": "rows",
    b"VSTRMANI": "manifests",
    b"VSTRCOLL": "manifests",
    b"VSTRMARK": "deletes",
    b"VSTRGONE": "deletes",
}
"""What the first bytes of a file say of it; of some, it is in the name."""

PLACES = (0x88E241B785F4CFF7).to_bytes(8, "little")
"""The last bytes of a table of RocksDB, which holds the places of rows."""


def kind(path: str) -> str:
    """Return what a file of a checkpoint holds."""
    if path.endswith("_metadata"):
        return "metadata"
    try:
        with Path(path).open("rb") as file:
            first = file.read(8)
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8))
            last = file.read(8)
    except OSError:
        return "removed before they were looked at"
    if last == PLACES:
        return "places"
    return KINDS.get(first, first.decode() if first.startswith(b"VSTR") else "other")


def uploads(folder: Path, checkpoints: int) -> tuple[list[dict[str, int]], int]:
    """Return the bytes that each of so many checkpoints added, by kind, and the least state."""
    known, done, states = files(folder), completed(folder), []
    added: list[dict[str, int]] = []
    pending: collections.Counter[str] = collections.Counter()
    while len(added) < checkpoints:
        time.sleep(0.05)
        now = files(folder)
        # A file grows while it is written, and goes when no checkpoint names it any more.
        pending.update({name: max(0, size - known.get(name, 0)) for name, size in now.items()})
        known.update(now)
        new = completed(folder) - done
        if new:
            done |= new
            kinds: collections.Counter[str] = collections.Counter()
            for name, size in pending.items():
                if size:
                    kinds[kind(name)] += size
            added.append(dict(kinds))
            states.append(sum(now.values()))
            pending.clear()
    return added, min(states)


def table(figures: dict) -> str:
    """Return what was measured, as people read it."""
    added, state = figures["added"], figures["state"]
    totals = [sum(one.values()) for one in added]
    most = added[totals.index(max(totals))]
    mean = sum(totals) / len(totals)
    memory = figures["memory"]
    lines = [
        f"{figures['rows']:,} rows of 100 dimensions, "
        + ("without a limit to memory" if memory == "null" else f"{memory} per partition")
        + f", {figures['parallelism'][0]} partitions, then {figures['parallelism'][1]}; a"
        f" checkpoint every {figures['interval']} s, between two of which 1 % of the rows change.",
        "",
        "| what | |",
        "|---|---|",
        f"| loaded | {figures['loaded']:.0f} s |",
        f"| state | {state / 1e6:,.0f} MB |",
        f"| upload, mean of {len(added)} | {mean / 1e6:.1f} MB, {mean / state:.2%} |",
        f"| upload, most | {max(totals) / 1e6:.1f} MB, {max(totals) / state:.2%} |",
    ]
    for name in sorted({name for one in added for name in one}):
        of = [one.get(name, 0) for one in added]
        lines.append(
            f"| of it {name}: mean; most; in the largest | {sum(of) / len(of) / state:.2%}; "
            f"{max(of) / state:.2%}; {most.get(name, 0) / state:.2%} |"
        )
    lines.append(f"| process start to the first new answer | {figures['answered']:.1f} s |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run both and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vstream", type=Path, default=Path("dist/bin/vstream"))
    parser.add_argument("--out", type=Path, default=Path("run/restore"))
    parser.add_argument("--stream", default="data/more-1000000.fbin")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="null", help="of each partition, such as '64 mb'")
    parser.add_argument("--interval", type=int, help="seconds; 5 per million rows if not given")
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--parallelism", type=int, nargs=2, default=[2, 4])
    arguments = parser.parse_args()
    arguments.interval = arguments.interval or max(5, 5 * arguments.rows // 1_000_000)
    subprocess.run(["rm", "-rf", arguments.out], check=True)
    arguments.out.mkdir(parents=True)
    folder = arguments.out / "checkpoints"
    before, after = arguments.parallelism
    figures = {
        name: getattr(arguments, name) for name in ("rows", "memory", "interval", "parallelism")
    }
    with Run(arguments, before, restore=False) as first:
        figures["loaded"] = first.until(
            lambda line: line.get("phase") == "stream" and line["queries"] > 0
        )
        # The next one holds what was loaded, and may have begun before the last of it.
        uploads(folder, 2)
        figures["added"], figures["state"] = uploads(folder, arguments.checkpoints)
    # The count goes on from that of the checkpoint, which its subtasks say one after the other.
    restored = [0]

    def answered(line: dict) -> bool:
        if line.get("phase") != "stream":
            restored.append(line.get("queries", 0))
            return False
        return line["queries"] > max(restored)

    with Run(arguments, after, restore=True) as again:
        figures["answered"] = again.until(answered)
        figures["last"] = again.last()
    (arguments.out / "restore.json").write_text(json.dumps(figures))
    (arguments.out / "restore.md").write_text(table(figures))
    print(table(figures))


if __name__ == "__main__":
    main()
