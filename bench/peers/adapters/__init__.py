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
    packages
        Its distributions, the one whose version is shown first: lines of requirements.txt, or
        `vstream`; empty for what needs none.
    is_database
        Pays for a call what a library pays for a hundred: its rows are capped, and it is installed
        into an environment of its own, because databases disagree about what they share.
    streams
        Whether it takes part in the mixed workload.
    is_default
        Whether it runs when no peers are named.
    without
        Environment variables that it must not find.
    """

    packages: tuple[str, ...] = ()
    is_database: bool = False
    streams: bool = True
    is_default: bool = True
    without: tuple[str, ...] = ()

    def rows(self, asked: int) -> int:
        """Return how many rows it is given."""
        return min(asked, DATABASE_ROWS_MAX) if self.is_database else asked


DATABASE_ROWS_MAX = 100_000

PEERS: dict[str, Entry] = {
    "vstream": Entry(("vstream",)),
    "vstream_auto": Entry(("vstream",)),
    "hnswlib": Entry(("hnswlib",)),
    "faiss_ivf": Entry(("faiss-cpu",)),
    "faiss_hnsw": Entry(("faiss-cpu",)),
    "faiss_ivfpq": Entry(("faiss-cpu",), streams=False),
    "usearch": Entry(("usearch",)),
    "svs": Entry(("scalable-vs",)),
    "svs_lvq": Entry(("scalable-vs",)),
    "qdrant_edge": Entry(("qdrant-edge-py",), is_database=True),
    # With this variable it hung in every stream of some ten thousand rows.
    "zvec": Entry(("zvec",), is_database=True, without=("OMP_NUM_THREADS",)),
    "chroma": Entry(("chromadb",), is_database=True),
    "milvus_lite": Entry(("milvus-lite", "pymilvus"), is_database=True),
    "lancedb": Entry(("lancedb",), is_database=True),
    "exact": Entry(is_default=False),
}

GROUPS = {
    "all": [name for name, entry in PEERS.items() if entry.is_default],
    "libraries": [n for n, entry in PEERS.items() if entry.is_default and not entry.is_database],
    "databases": [n for n, entry in PEERS.items() if entry.is_default and entry.is_database],
}


def chosen(words: str) -> list[str]:
    """Return the peers that a list of names and groups speaks of, each once.

    Exits with a sentence if there is no such peer.
    """
    asked = words.replace(",", " ").split()
    names = [name for word in asked for name in GROUPS.get(word, [word])]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise SystemExit(
            f"No peer is called {', '.join(unknown)}: choose of {', '.join([*GROUPS, *PEERS])}."
        )
    return list(dict.fromkeys(names)) or GROUPS["all"]


def load(name: str, setup: Setup) -> Peer:
    """Import the adapter of a peer and make an empty index."""
    module = importlib.import_module(f"adapters.{name}")
    return module.Adapter(setup)
