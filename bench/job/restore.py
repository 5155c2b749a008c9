"""Checkpoints of a large job, and its restore at another parallelism.

A job loads rows and then changes one in a hundred of them between two checkpoints. What each
checkpoint adds to its folder is what it uploaded. Then the job is stopped and started again from
the newest one with another number of partitions, and the time to its first answers is taken.
"""

import argparse
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

PATIENCE = 900
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


def uploads(folder: Path, checkpoints: int) -> tuple[list[int], int]:
    """Return the bytes that each of so many checkpoints added, and the least bytes of a state."""
    known, done, added, states = files(folder), completed(folder), [], []
    pending = 0
    while len(added) < checkpoints:
        time.sleep(0.05)
        now = files(folder)
        # A file grows while it is written, and goes when no checkpoint names it any more.
        pending += sum(max(0, size - known.get(name, 0)) for name, size in now.items())
        known.update(now)
        new = completed(folder) - done
        if new:
            done |= new
            added.append(pending)
            states.append(sum(now.values()))
            pending = 0
    return added, min(states)


def main() -> None:
    """Run both and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vstream", type=Path, default=Path("dist/bin/vstream"))
    parser.add_argument("--out", type=Path, default=Path("run/restore"))
    parser.add_argument("--stream", default="data/more.fbin")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="null", help="of each partition, such as '64 mb'")
    parser.add_argument("--interval", type=int, default=5)
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--parallelism", type=int, nargs=2, default=[2, 4])
    arguments = parser.parse_args()
    subprocess.run(["rm", "-rf", arguments.out], check=True)
    arguments.out.mkdir(parents=True)
    folder = arguments.out / "checkpoints"
    before, after = arguments.parallelism
    with Run(arguments, before, restore=False) as first:
        loaded = first.until(lambda line: line.get("phase") == "stream" and line["queries"] > 0)
        print(f"{arguments.rows:,} rows loaded in {loaded:.0f} s at {before}")
        # The next one holds what was loaded, and may have begun before the last of it.
        uploads(folder, 2)
        added, state = uploads(folder, arguments.checkpoints)
    mean = sum(added) / len(added)
    print(f"state {state:,} bytes; {len(added)} checkpoints uploaded {mean:,.0f} in the mean,")
    print(f"{mean / state:.2%} of it, at most {max(added) / state:.2%}")
    # The count goes on from that of the checkpoint.
    counts = []

    def answered(line: dict) -> bool:
        counts.append(line.get("queries", 0))
        return counts[-1] > next(filter(None, counts), counts[-1])

    with Run(arguments, after, restore=True) as again:
        seconds = again.until(answered)
        print(f"first answers {seconds:.1f} s after the start at parallelism {after}")
        print(again.last())


if __name__ == "__main__":
    main()
