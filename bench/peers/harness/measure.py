"""Clocks, memory and percentiles."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds between two readings.

    Attributes
    ----------
    wall
        By the clock on the wall.
    thread
        CPU of the thread that calls the peer.
    process
        CPU of the whole process, with the peer's own threads in the background, and of the
        processes that the peer started.
    """

    wall: float
    thread: float
    process: float


class Clock:
    """Started when made."""

    def __init__(self) -> None:
        self._start = _reading()

    def spent(self) -> Spent:
        """Return what was spent since the start."""
        return Spent(*(now - then for now, then in zip(_reading(), self._start, strict=True)))


def _reading() -> tuple[float, float, float]:
    started = sum(_cpu_s(process) for process in _started())
    return time.perf_counter(), time.thread_time(), time.process_time() + started


def _started(process: str = "self") -> list[str]:
    """Return the processes that this one started, and those that they started."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += [child, *_started(child)]
    return found


def _cpu_s(process: str) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def resident_bytes() -> int:
    """Memory of this process and those it started, after what was freed has been handed back."""
    ctypes.CDLL(None).malloc_trim(0)
    return sum(_resident_bytes(process) for process in ["self", *_started()])


def _resident_bytes(process: str) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def percentiles_us(times_ns: NDArray[np.int64]) -> dict[str, float]:
    """Return p50, p99 and p99.9 in microseconds, and the mean."""
    if len(times_ns) == 0:
        return {}
    values = np.percentile(times_ns, list(_PERCENTILES.values())) / 1000
    found: dict[str, Any] = dict(zip(_PERCENTILES, values.tolist(), strict=True))
    return {**found, "mean": float(times_ns.mean()) / 1000}
