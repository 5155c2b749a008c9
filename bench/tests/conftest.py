"""The harness's modules are scripts beside each other, not a package."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
TOOLS = BENCH.parent / "tools"
sys.path[:0] = [str(BENCH), str(BENCH / "peers"), str(BENCH / "runbooks"), str(BENCH / "data")]
sys.path.append(str(TOOLS))
