"""What one child process is told, and what it has loaded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Task:
    """One peer, one workload.

    Attributes
    ----------
    peer
        Name of the adapter.
    workload
        `static` or `mixed`.
    folder
        Data set: `base.fbin`, `query.fbin`.
    truth
        File of the exact neighbours.
    scratch
        Empty folder for a peer that wants files.
    metric
        `l2` or `cosine`.
    rows, queries
        How many are used, from the front of each file.
    k
        Neighbours wanted.
    target
        Recall that the mixed workload is tuned to.
    seconds
        Longest stream, or sweep.
    """

    peer: str
    workload: str
    folder: str
    truth: str
    scratch: str
    metric: str
    rows: int
    queries: int
    k: int
    target: float
    seconds: float

    def write(self, path: Path) -> None:
        """Write the task for the child."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Task:
        """Read what the parent wrote."""
        return cls(**json.loads(path.read_text()))
