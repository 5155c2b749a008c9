"""How many texts a model embeds per second of a core, and how often a question finds its text.

`run.py MODELS SPEECHES WORDNET OUT` writes `OUT/rag.md` and `OUT/rag.json`; `make bench-rag` does.

1. *Texts*: glosses of WordNet (`word, word: gloss`), a thousand and more per model, embedded in
   batches of 32 on one thread. The rate is texts per second of CPU time of the process, tokens and
   all; the wall clock's is beside it.
2. *Known items*: a query is made of a text that is indexed, and its text is to be among the five
   nearest. All queries go through `Documents.search` with the usual settings.

   - `glosses`: the documents are the glosses with the words that they explain and with examples of
     their use. The query is the definition alone, without words and examples.
   - `speeches`: the documents are annual messages of presidents, in chunks of 500 and of 800
     characters. The query is one sentence of 60 to 300 characters of a chunk, word for word; any
     chunk of the same speech that has it counts.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from vstream import rag

sys.path.append(str(Path(__file__).resolve().parent.parent / "data"))
import wordnet

SEED = 20_261
BATCH = 32
K = 5
# Short texts to embed, documents and queries, by kind of model: a transformer takes its time.
TEXTS = {"static": 100_000, "transformer": 1_000}
GLOSSES = {"static": 50_000, "transformer": 3_000}
QUERIES = {"static": 2_000, "transformer": 300}
SPEECHES = {"static": 1_000, "transformer": 10}
# Characters of a chunk: the usual number, and one at which a static model begins to blur.
SIZES = (500, 800)


def main() -> None:
    """Measure every model; write the table."""
    models, speeches, words, out = (Path(place) for place in sys.argv[1:])
    synsets = wordnet.shuffled(wordnet.unpack(words))
    listed = [json.loads(line) for line in speeches.read_text().splitlines()]
    found = []
    for name in ("static", "minilm"):
        model = rag.Model.open(models / name)
        kind = model.kind
        print(f"{name}: rate", file=sys.stderr)
        one = {"model": name, "kind": kind, "dimension": model.dimension}
        one |= rate(model, [synset.text for synset in synsets[: TEXTS[kind]]])
        print(f"{name}: glosses", file=sys.stderr)
        one["glosses"] = glosses(model, synsets[: GLOSSES[kind]], QUERIES[kind])
        # The newest ones, if not all.
        some = {one["id"]: one["text"] for one in listed[-SPEECHES[kind] :]}
        print(f"{name}: speeches", file=sys.stderr)
        for size in SIZES:
            one[f"speeches{size}"] = passages(model, some, QUERIES[kind], size)
        found.append(one)
    out.mkdir(parents=True, exist_ok=True)
    (out / "rag.json").write_text("".join(json.dumps(one) + "\n" for one in found))
    (out / "rag.md").write_text(table(found))
    print(table(found))


def rate(model: rag.Model, texts: list[str]) -> dict[str, Any]:
    """Embed texts in batches on this thread."""
    model.embed(texts[:BATCH])
    wall, used = time.perf_counter(), time.process_time()
    for first in range(0, len(texts), BATCH):
        model.embed(texts[first : first + BATCH])
    wall, used = time.perf_counter() - wall, time.process_time() - used
    return {
        "texts": len(texts),
        "characters": round(sum(map(len, texts)) / len(texts)),
        "per_core_second": round(len(texts) / used, 1),
        "per_second": round(len(texts) / wall, 1),
    }


def glosses(model: rag.Model, synsets: list[wordnet.Synset], queries: int) -> dict[str, Any]:
    """Ask for glosses by their definitions."""
    documents = rag.Documents.open(model)
    ids = [f"{part}-{offset}" for part, offset in (synset.key for synset in synsets)]
    documents.upsert(ids, [synset.text for synset in synsets])
    rng = random.Random(SEED)
    asked = []
    for at in rng.sample(range(len(synsets)), queries):
        gloss = synsets[at].text.split(": ", 1)[1]
        # Examples stand in quotes behind the definition.
        asked.append((gloss.split('; "')[0].strip(), {ids[at]}))
    return recall(documents, asked, lambda passage: passage.document)


def passages(model: rag.Model, speeches: dict[str, str], queries: int, size: int) -> dict[str, Any]:
    """Ask for chunks by one of their sentences."""
    documents = rag.Documents.open(model, size=size)
    documents.upsert(list(speeches), list(speeches.values()))
    every = {document: documents.get(document) for document in documents}
    asked = []
    for document, start, end in sentences(every, queries):
        holders = {
            (document, one.start)
            for one in every[document]
            if one.start <= start and end <= one.end
        }
        if holders:
            asked.append((speeches[document][start:end], holders))
    return recall(documents, asked, lambda one: (one.document, one.start))


def sentences(chunks: dict[str, list[rag.Passage]], count: int) -> list[tuple[str, int, int]]:
    """Draw sentences: the document, the first character and the one behind the last."""
    rng = random.Random(SEED)
    every = [one for some in chunks.values() for one in some]
    drawn = {}
    for passage in rng.sample(every, min(count, len(every))):
        fit = [(a, b) for a, b in rag.sentences(passage.text) if 60 <= b - a <= 300]
        if fit:
            start, end = (passage.start + place for place in rng.choice(fit))
            drawn[passage.document, start] = (passage.document, start, end)
    return list(drawn.values())


def recall(documents: rag.Documents, asked: list[tuple[str, set[Any]]], key: Any) -> dict[str, Any]:
    """Return the share of the queries whose text is among the nearest ones."""
    first = among = 0
    began = time.perf_counter()
    for question, holders in asked:
        found = [key(one) for one in documents.search(question, K)]
        first += found[0] in holders
        among += any(one in holders for one in found)
    seconds = time.perf_counter() - began
    return {
        "documents": len(documents),
        "chunks": len(documents.collection),
        "queries": len(asked),
        "recall_at_1": round(first / len(asked), 4),
        "recall_at_5": round(among / len(asked), 4),
        "ms_per_query": round(seconds / len(asked) * 1e3, 2),
    }


def table(found: list[dict[str, Any]]) -> str:
    """Return the two tables as Markdown."""
    lines = [
        "| model | dimensions | texts | characters per text | texts/s and core | texts/s, wall |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['model']} | {one['dimension']} | {one['texts']:,} | {one['characters']} "
        f"| {one['per_core_second']:,.0f} | {one['per_second']:,.0f} |"
        for one in found
    ]
    lines += [
        "",
        "| model | known item | chunks | queries | recall@1 | recall@5 | ms per query |",
        "|---|---|---|---|---|---|---|",
    ]
    names = {
        "glosses": "gloss, by its definition",
        "speeches500": "chunk of 500 characters of a speech, by one of its sentences",
        "speeches800": "chunk of 800 characters of a speech, by one of its sentences",
    }
    for one in found:
        for key, name in names.items():
            got = one[key]
            found_first, among = got["recall_at_1"], got["recall_at_5"]
            lines.append(
                f"| {one['model']} | {name} | {got['chunks']:,} | {got['queries']:,} "
                f"| {found_first:.3f} | {among:.3f} | {got['ms_per_query']:.1f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
