"""One file per index that searches with filters; `adapters.PEERS` says which package it needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filtered.adapters.index import FilteredIndex, Setup

# Those that run by default, in the order of the tables; `exact` is a control and a baseline.
NAMES = (
    *("vstream", "hnswlib", "faiss_ivf", "qdrant_edge", "qdrant_edge_links", "lancedb"),
    "exact",
)
# The peer whose package and environment another one uses.
_SHARED = {"qdrant_edge_links": "qdrant_edge"}


def chosen(words: str) -> list[str]:
    """Return the indexes that a list of names speaks of, each once; `all` is every one.

    Exits with a sentence if there is no such index.
    """
    asked = words.replace(",", " ").split()
    names = [name for word in asked for name in (NAMES if word == "all" else (word,))]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise SystemExit(
            f"No index with filters is called {', '.join(unknown)}: choose of "
            f"{', '.join(['all', *NAMES])}."
        )
    return list(dict.fromkeys(names)) or list(NAMES)


def package(name: str) -> str:
    """Return the name under which `adapters.PEERS` has the package of an index."""
    return _SHARED.get(name, name)


def load(name: str, setup: Setup) -> FilteredIndex:
    """Import the adapter of an index and make an empty one."""
    module = importlib.import_module(f"filtered.adapters.{name}")
    return module.Adapter(setup)
