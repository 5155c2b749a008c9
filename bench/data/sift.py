"""Makes a data set of real SIFT descriptors: 128 whole numbers from 0 to 255, squared distance.

1. Makes a Python environment with OpenCV beside the data set.
2. Downloads Debian packages with pictures, by name, with apt-get, and unpacks them there; nothing
   is installed.
3. Runs descriptors.py on one package after the other until there are enough different rows.

`python3 bench/data/sift.py data/sift128 --rows 310000`. Needs apt-get, dpkg-deb and the standard
library. What was downloaded stays in `<folder>.work`; remove it when you like.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Make the data set, or say that it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where base.fbin and query.fbin go")
    parser.add_argument("--rows", type=int, default=310_000, help="rows of base.fbin; 0: all")
    parser.add_argument("--queries", type=int, default=2_000, help="rows that are held out")
    options = parser.parse_args()
    if options.rows < 0 or options.queries < 1:
        parser.error("use rows from 0 and queries from 1")
    folder: Path = options.folder
    wanted = options.rows + options.queries if options.rows else None
    if _is_made(folder, options.rows):
        print(f"{folder} is there already.", file=sys.stderr)
        return
    work = folder.parent / f"{folder.name}.work"
    python = _environment(work)
    subprocess.run(["apt-get", "update", "-qq"], check=False)
    packages, found = [], 0
    for name in _names():
        packages.append(_unpacked(name, work))
        found += _described(python, name, work, wanted)
        print(f"{name}: {found:,} descriptors so far", file=sys.stderr)
        # Some come twice; packing counts the different ones.
        if wanted is not None and found >= wanted and _packed(python, work, options, packages):
            return
    if wanted is not None or not _packed(python, work, options, packages):
        sys.exit(f"All pictures give too few rows: {found:,} with repetitions. Ask for fewer.")


def _names() -> list[str]:
    lines = (HERE / "image-packages.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _is_made(folder: Path, rows: int) -> bool:
    """Say whether the folder holds a whole data set of at least so many rows (0: of all)."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
    except OSError:
        return False
    whole = all(
        (folder / name).is_file() and (folder / name).stat().st_size == file["bytes"]
        for name, file in meta["files"].items()
    )
    return whole and (meta["is-all"] or 0 < rows <= meta["base-rows"])


def _environment(work: Path) -> Path:
    """Return the Python of the environment, which is made when absent."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    requirements = HERE / "requirements.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
    return python


def _unpacked(name: str, work: Path) -> dict[str, str]:
    """Download and unpack a package, unless that was done; return its name, version, checksum."""
    archives, pictures = work / "debs", work / "pictures" / name
    archives.mkdir(parents=True, exist_ok=True)
    if not list(archives.glob(f"{name}_*.deb")):
        # As its own user apt could not write here, and would say so each time.
        command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "-qq", name]
        subprocess.run(command, cwd=archives, check=True)
    archive = next(archives.glob(f"{name}_*.deb"))
    if not pictures.exists():
        beside = work / f"{name}.partial"
        pictures.parent.mkdir(exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", archive, beside], check=True)
        beside.rename(pictures)
    version = subprocess.run(
        ["dpkg-deb", "-f", archive, "Version"], check=True, capture_output=True, text=True
    )
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return {"name": name, "version": version.stdout.strip(), "sha256": digest}


def _described(python: Path, name: str, work: Path, wanted: int | None) -> int:
    """Compute the descriptors of a package's pictures; return how many there are."""
    command = [python, HERE / "descriptors.py", "describe", work, name, str(wanted or 0)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout.split()[-1])


def _packed(
    python: Path, work: Path, options: argparse.Namespace, packages: list[dict[str, str]]
) -> bool:
    """Write the data set; False if there are too few different rows."""
    (work / "packages.json").write_text(json.dumps(packages))
    numbers = [str(options.rows), str(options.queries)]
    command = [python, HERE / "descriptors.py", "pack", work, options.folder, *numbers]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.strip() == b"packed"


if __name__ == "__main__":
    main()
