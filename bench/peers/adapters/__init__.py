"""One file per peer; `PEERS` says which package each needs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.peer import Peer, Setup


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a peer comes from.

    Attributes
    ----------
    package
        Its distribution: a line of requirements.txt, or `vstream`; None for what needs none.
    rows_max
        Most rows that it is given; None where any number is fine.
    streams
        Whether it takes part in the mixed workload.
    is_default
        Whether it runs when no peers are named.
    """

    package: str | None
    rows_max: int | None = None
    streams: bool = True
    is_default: bool = True


DATABASE_ROWS_MAX = 100_000

PEERS: dict[str, Entry] = {
    "vstream": Entry("vstream"),
    "vstream_auto": Entry("vstream"),
    "hnswlib": Entry("hnswlib"),
    "faiss_ivf": Entry("faiss-cpu"),
    "faiss_hnsw": Entry("faiss-cpu"),
    "faiss_ivfpq": Entry("faiss-cpu", streams=False),
    "usearch": Entry("usearch"),
    "svs": Entry("scalable-vs"),
    "exact": Entry(None, is_default=False),
    "chroma": Entry("chromadb", rows_max=DATABASE_ROWS_MAX, is_default=False),
}


def load(name: str, setup: Setup) -> Peer:
    """Import the adapter of a peer and make an empty index."""
    module = importlib.import_module(f"adapters.{name}")
    return module.Adapter(setup)
