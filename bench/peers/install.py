"""Installs the harness and the peers: libraries beside the harness, databases apart.

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

from adapters import PEERS, chosen
from environments import FAILURES, python_of

HERE = Path(__file__).resolve().parent
HARNESS = ("numpy", "matplotlib")
# Peers choose numbers of their own for what they share with the harness; the pins win.
PINS = HERE / "requirements.txt"


def main() -> None:
    """Install what the peers named need; all that run by default where none is named."""
    lines = re.findall(r"^([\w-]+)==(\S+)$", PINS.read_text(), re.MULTILINE)
    pinned = {package: f"{package}=={version}" for package, version in lines}
    said = _pip(Path(sys.executable), [pinned[package] for package in HARNESS])
    if said is not None:
        sys.exit(f"The harness needs {' and '.join(HARNESS)}, which do not install: {said}")
    failed: dict[str, str] = json.loads(FAILURES.read_text()) if FAILURES.exists() else {}
    for peer in chosen(" ".join(sys.argv[1:])):
        wanted = [pinned[package] for package in PEERS[peer].packages if package in pinned]
        said = _install(peer, wanted) if wanted else None
        if said is None:
            failed.pop(peer, None)
        else:
            failed[peer] = f"{' and '.join(wanted)} does not install here: {said}"
            print(f"{peer}: {failed[peer]}", file=sys.stderr)
    FAILURES.write_text(json.dumps(failed, indent=1))


def _install(peer: str, wanted: list[str]) -> str | None:
    """Install the packages of a peer where it belongs; return what went wrong."""
    python = python_of(peer)
    if not python.exists():
        folder = python.parent.parent
        made = subprocess.run(
            [sys.executable, "-m", "venv", folder], capture_output=True, text=True, check=False
        )
        if made.returncode:
            return made.stdout + made.stderr
    return _pip(python, ["numpy", *wanted])


def _pip(python: Path, what: list[str]) -> str | None:
    """Install packages; return pip's last words if it fails."""
    command = [python, "-m", "pip", "install", "-q", "-c", PINS, *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.lower().startswith("error")]
    return (said or done.stderr.splitlines() or ["pip said nothing"])[-1]


if __name__ == "__main__":
    main()
