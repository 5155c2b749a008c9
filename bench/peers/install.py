"""Installs the harness and the peers into the environment that runs it.

`python install.py PEER...`: what the harness needs must install. A peer that does not is noted in
`failed.json` of the environment, and its row in the table says so. VStream itself is not its
business: the Makefile builds it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from adapters import PEERS

HERE = Path(__file__).resolve().parent
HARNESS = ("numpy", "matplotlib")
# Peers choose numbers of their own for what they share with the harness; the pins win.
PINS = HERE / "requirements.txt"


def main() -> None:
    """Install what the peers named need; all that run by default where none is named."""
    named = " ".join(sys.argv[1:]).replace(",", " ").split()
    names = named or [name for name, entry in PEERS.items() if entry.is_default]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        sys.exit(f"No peer is called {', '.join(unknown)}: choose of {', '.join(PEERS)}.")
    lines = re.findall(r"^([\w-]+)==(\S+)$", PINS.read_text(), re.MULTILINE)
    pinned = {package: f"{package}=={version}" for package, version in lines}
    for package in HARNESS:
        if _pip(pinned[package]) is not None:
            sys.exit(f"{pinned[package]} does not install; the harness needs it.")
    failures = Path(sys.prefix) / "failed.json"
    failed: dict[str, str] = json.loads(failures.read_text()) if failures.exists() else {}
    for package in dict.fromkeys(PEERS[name].package for name in names):
        if package not in pinned:
            continue
        said = _pip(pinned[package])
        if said is None:
            failed.pop(package, None)
        else:
            failed[package] = said
            print(f"{package} does not install here: {said}", file=sys.stderr)
    failures.write_text(json.dumps(failed, indent=1))


def _pip(what: str) -> str | None:
    """Install one package; return pip's last words if it fails."""
    command = [sys.executable, "-m", "pip", "install", "-q", "-c", str(PINS), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.lower().startswith("error")]
    return (said or done.stderr.splitlines() or ["pip said nothing"])[-1]


if __name__ == "__main__":
    main()
