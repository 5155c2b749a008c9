"""The harness's modules are scripts beside each other, not a package."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
TOOLS = BENCH.parent / "tools"
FOLDERS = (
    BENCH,
    *(
        BENCH / name
        for name in ("peers", "runbooks", "data", "disk", "coordinator", "vectordbbench")
    ),
)
sys.path[:0] = [str(folder) for folder in FOLDERS]
sys.path.append(str(TOOLS))
