"""Keeps the raw results of benchmarks in `bench/results`, and renders their tables in documents.

`results.py record NAME TABLE.md RAW… --command "make …"` writes `bench/results/NAME.json`: command,
commit, date, the table as people read it, and everything that was measured.

`results.py render DOCUMENT.md` puts each table between the two lines that ask for it:

    <!-- results: NAME -->
    <!-- end of results -->
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bench" / "results"
# What runs write: not a difference from the commit that they measured.
WRITTEN = (":!bench/results", ":!docs/plots")
_BLOCK = re.compile(r"(<!-- results: ([\w.-]+) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)


def main(arguments: list[str]) -> None:
    """Do what the first argument says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True, dest="verb")
    recording = verbs.add_parser("record", help="keep a result")
    recording.add_argument("name")
    recording.add_argument("table", type=Path, help="Markdown")
    recording.add_argument("raw", type=Path, nargs="*", help="JSON, or JSON lines")
    recording.add_argument("--command", required=True, help="what measures it again")
    recording.add_argument("--folder", type=Path, default=FOLDER)
    rendering = verbs.add_parser("render", help="put tables into a document")
    rendering.add_argument("document", type=Path)
    rendering.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    if options.verb == "record":
        text = recorded(options.table, options.raw, options.command, _commit())
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / f"{options.name}.json").write_text(text)
    else:
        document: Path = options.document
        document.write_text(rendered(document.read_text(), options.folder))


def recorded(table: Path, raw: list[Path], command: str, commit: str) -> str:
    """Return the JSON that is kept: a line per row of the table and per measurement."""
    about = {
        "command": command,
        "commit": commit,
        "date": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d"),
    }
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    lines = ",\n  ".join(json.dumps(line) for line in table.read_text().splitlines())
    # `result.json` says nothing: its folder does.
    names = [path.parent.name if path.stem.startswith("result") else path.stem for path in raw]
    pairs = zip(names, raw, strict=True)
    every = ",\n  ".join(f"{json.dumps(name)}: {_raw(path)}" for name, path in pairs)
    body = [*head, f'"table": [\n  {lines}\n ]', f'"raw": {{\n  {every}\n }}']
    return "{\n " + ",\n ".join(body) + "\n}\n"


def _raw(path: Path) -> str:
    """Return the file's JSON, a line per key or element; JSON lines become a list."""
    text = path.read_text()
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError:
        value = [json.loads(line) for line in text.splitlines() if line]
    if isinstance(value, list):
        return "[\n   " + ",\n   ".join(json.dumps(item) for item in value) + "\n  ]"
    items = []
    for key, item in value.items():
        shown = json.dumps(item)
        if isinstance(item, list):
            shown = "[\n    " + ",\n    ".join(json.dumps(part) for part in item) + "\n   ]"
        items.append(f"{json.dumps(key)}: {shown}")
    return "{\n   " + ",\n   ".join(items) + "\n  }"


def rendered(text: str, folder: Path) -> str:
    """Return the document with each table that it asks for; a missing result ends the program."""

    def block(found: re.Match[str]) -> str:
        head, name, before, end = found.groups()
        if "<!-- results: " in before:
            sys.exit(f"The table {name} has no line of its own that ends it.")
        path = folder / f"{name}.json"
        if not path.exists():
            sys.exit(f"There is no result {path}: measure it, then record it.")
        result = json.loads(path.read_text())
        caption = f"`{result['command']}`, commit {result['commit']}, {result['date']}:"
        # The document has headings of its own.
        lines = [line for line in result["table"] if not line.startswith("# ")]
        table = "\n".join(lines).strip("\n")
        return f"{head}{caption}\n\n{table}\n{end}"

    return _BLOCK.sub(block, text)


def _commit() -> str:
    """Return the commit, with `-dirty` if files differ from it that a run does not write itself."""
    commit = _git("describe", "--always")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *WRITTEN)
    return (commit + ("-dirty" if changed else "")) or "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
