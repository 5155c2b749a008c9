"""A peer in a process of its own, which is ended when its time is up; and what machine this is."""

from __future__ import annotations

import datetime
import os
import platform
import signal
import subprocess
from pathlib import Path
from typing import Any

from adapters import PEERS
from environments import python_of

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
# Libraries that would start threads of their own for a single call.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def run(command: list[str], peer: str, log: Path, box_s: float, *threads: str) -> int | None:
    """Run a script of this folder with the peer's Python, one thread for each of its libraries.

    `threads` are more variables that say how many threads there are. Returns the exit code, None
    if the time was up. No process of the child is left behind.
    """
    environment = os.environ | dict.fromkeys((*THREADS, *threads), "1")
    for name in PEERS[peer].without:
        environment.pop(name, None)
    with log.open("w") as output:
        process = subprocess.Popen(
            [python_of(peer), *command],
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
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the child's session: itself, or a server that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def last_words(log: Path) -> str:
    """Return the last line that a child wrote."""
    return (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]


def now() -> str:
    """Return the date and the time of day."""
    return datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def commit() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """Say what this machine is."""
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
