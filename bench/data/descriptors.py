"""Computes SIFT descriptors and packs them; sift.py runs it in an environment with OpenCV.

`descriptors.py describe WORK PACKAGE WANTED` writes WORK/descriptors/PACKAGE-CAP.npy and prints how
many rows it has. `descriptors.py pack WORK FOLDER ROWS QUERIES` writes the data set and prints
`packed`, or `too few`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

U8Array = NDArray[np.uint8]

_DIMENSION = 128
_SIDE_PIXELS_MAX = 3_000
_AREA_PIXELS_MIN = 40_000
# Descriptors of one picture at most: of all rows, and so that a smaller set has 25 pictures.
_PER_PICTURE_MAX = 20_000
_PICTURES_MIN = 25
_SEED = 11
_ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}


def main() -> None:
    """Do what the first argument says."""
    if sys.argv[1] == "describe":
        work, package, wanted = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
        print(len(np.load(_describe(work, package, _cap(wanted)), mmap_mode="r")))
    else:
        work, folder, rows, queries = sys.argv[2:]
        print(_pack(Path(work), Path(folder), int(rows), int(queries)))


def _cap(wanted: int) -> int:
    """Descriptors of one picture at most; `wanted` is 0 for all."""
    return min(_PER_PICTURE_MAX, -(-wanted // _PICTURES_MIN)) if wanted else _PER_PICTURE_MAX


def _describe(work: Path, package: str, cap: int) -> Path:
    file = work / "descriptors" / f"{package}-{cap}.npy"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        jobs = [(picture, cap) for picture in _pictures(work / "pictures" / package)]
        with Pool(os.cpu_count()) as pool:
            parts = list(pool.imap(_sift, jobs, chunksize=2))
        beside = file.with_suffix(".partial.npy")
        np.save(beside, np.concatenate([np.empty((0, _DIMENSION), dtype=np.uint8), *parts]))
        beside.rename(file)
    return file


def _pictures(folder: Path) -> list[Path]:
    """List the pictures, of those that come in many sizes the largest, in a seeded order."""
    best: dict[Path, tuple[int, Path]] = {}
    for path in sorted(folder.rglob("*")):
        is_wanted = path.suffix.lower() in _ENDINGS and "screenshot" not in path.name.lower()
        if not is_wanted or path.is_symlink():
            continue
        # One picture in many sizes: <name>/contents/images/WIDTHxHEIGHT.jpg.
        sized = re.match(r"(\d+)x(\d+)\.", path.name)
        key = path.parent if sized else path
        size = int(sized[1]) * int(sized[2]) if sized else path.stat().st_size
        if key not in best or size > best[key][0]:
            best[key] = (size, path)
    pictures = sorted(path for _, path in best.values())
    random.Random(_SEED).shuffle(pictures)
    return pictures


def _sift(job: tuple[Path, int]) -> U8Array:
    """Return the strongest descriptors of a picture; none if it cannot be read or is small."""
    path, cap = job
    cv2.setNumThreads(1)
    none = np.empty((0, _DIMENSION), dtype=np.uint8)
    picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if picture is None or picture.size < _AREA_PIXELS_MIN:
        return none
    scale = _SIDE_PIXELS_MAX / max(picture.shape)
    if scale < 1:
        picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    _, found = cv2.SIFT_create(nfeatures=cap).detectAndCompute(picture, None)
    # A tie at the cut lets a few more through.
    return none if found is None else np.clip(np.rint(found[:cap]), 0, 255).astype(np.uint8)


def _pack(work: Path, folder: Path, rows: int, queries: int) -> str:
    packages: list[dict[str, str]] = json.loads((work / "packages.json").read_text())
    cap = _cap(rows + queries if rows else 0)
    files = [_describe(work, package["name"], cap) for package in packages]
    every = np.concatenate([np.load(file) for file in files])
    _, first = np.unique(every.view(f"V{_DIMENSION}").ravel(), return_index=True)
    different = every[np.sort(first)]
    np.random.default_rng(_SEED).shuffle(different)
    if len(different) < max(rows, 1) + queries:
        return "too few"
    base = different[queries : queries + rows] if rows else different[queries:]
    meta = {
        "name": "sift128",
        "source": "SIFT descriptors (OpenCV) of pictures in Debian packages",
        "licence": "of the pictures: CC-BY-SA, CC-BY, GPL, public domain; each package says which",
        "source-sha256": _digest("".join(package["sha256"] for package in packages).encode()),
        "packages": packages,
        "dimension": _DIMENSION,
        "preparation": f"at most {cap} per picture, rounded to 0..255, repetitions left out, "
        "shuffled",
        "seed": _SEED,
        "base-rows": len(base),
        "query-rows": queries,
        "skipped": len(every) - len(different),
        "is-all": rows == 0,
    }
    _publish(folder, {"base.fbin": base, "query.fbin": different[:queries]}, meta)
    return "packed"


def _publish(folder: Path, parts: dict[str, U8Array], meta: dict[str, Any]) -> None:
    """Write the files to one side, then move them into place, `meta.json` last."""
    beside = folder / ".partial"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    (folder / "meta.json").unlink(missing_ok=True)
    files = {}
    for name, part in parts.items():
        head = np.array(part.shape, dtype="<u4").tobytes()
        bytes_ = head + part.astype("<f4").tobytes()
        (beside / name).write_bytes(bytes_)
        files[name] = {"bytes": len(bytes_), "sha256": _digest(bytes_)}
    (beside / "meta.json").write_text(json.dumps({**meta, "files": files}, indent=2) + "\n")
    for name in [*files, "meta.json"]:
        (beside / name).rename(folder / name)
    beside.rmdir()


def _digest(bytes_: bytes) -> str:
    return hashlib.sha256(bytes_).hexdigest()


if __name__ == "__main__":
    main()
