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
        CPU of the whole process: with the peer's own threads in the background.
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
    return time.perf_counter(), time.thread_time(), time.process_time()


def resident_bytes() -> int:
    """Memory of this process after what was freed has been handed back."""
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def percentiles_us(times_ns: NDArray[np.int64]) -> dict[str, float]:
    """Return p50, p99 and p99.9 in microseconds, and the mean."""
    if len(times_ns) == 0:
        return {}
    values = np.percentile(times_ns, list(_PERCENTILES.values())) / 1000
    found: dict[str, Any] = dict(zip(_PERCENTILES, values.tolist(), strict=True))
    return {**found, "mean": float(times_ns.mean()) / 1000}
