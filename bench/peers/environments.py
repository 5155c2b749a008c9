"""Which Python runs a peer: the harness's own, or that of an environment beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from adapters import PEERS

# Made by install.py: what does not install, and what pip said.
FAILURES = Path(sys.prefix) / "failed.json"


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer, whether it is there yet or not."""
    if not PEERS[peer].is_database:
        return Path(sys.executable)
    return Path(sys.prefix) / "environments" / peer / "bin" / "python"
