"""Speeches stream in by date, and questions are asked while they arrive.

`rag.py MODEL SPEECHES` reads the speeches one after the other into documents on a thread of its
own. Whenever some decades have passed the same questions are asked again, of all speeches and of
those of the last 25 years: the answers change with what is new. With the name of a language model
and an address in VSTREAM_LANGUAGE_MODEL and VSTREAM_LANGUAGE_URL that model writes the answers.
"""

import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vstream import rag

QUESTIONS = [
    "What is the state of the roads, railroads and highways?",
    "Which enemy threatens our peace?",
]
# The years at which the questions are asked.
STOPS = [1830, 1870, 1920, 1965, 2010, 2030]
RECENT = 25


def stream(
    documents: rag.Documents, path: Path, before: Callable[[int], None]
) -> tuple[int, int]:
    """Write the speeches in their order; return how many there were, and their chunks."""
    speeches = chunks = 0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            speech = json.loads(line)
            before(speech["attributes"]["year"])
            change = documents.upsert(
                speech["id"], speech["text"], speech["attributes"]
            )
            speeches += 1
            chunks += change.embedded
    return speeches, chunks


def ask(
    documents: rag.Documents, year: int, language: rag.LanguageModel | None
) -> None:
    """Ask every question of what is there, and of what is recent."""
    print(f"\n{year}: {len(documents)} speeches, {len(documents.collection):,} chunks")
    for question in QUESTIONS:
        print(f"  {question}")
        for name, where in [
            ("all", None),
            (f"since {year - RECENT}", {"year": {"$gte": year - RECENT}}),
        ]:
            began = time.perf_counter()
            answer = documents.ask(
                question, k=3, where=where, sentences=1, language=language
            )
            millis = (time.perf_counter() - began) * 1e3
            cited = ", ".join(answer.citations())
            said = textwrap.shorten(answer.text, 240, placeholder=" ...")
            print(f"    {name}: {said}")
            print(f"      {cited} ({millis:.1f} ms)")


def main() -> None:
    """Stream, ask, then replace a speech and show what that costs."""
    model = rag.Model.open(sys.argv[1])
    speeches = Path(sys.argv[2])
    url = os.environ.get("VSTREAM_LANGUAGE_URL")
    name = os.environ.get("VSTREAM_LANGUAGE_MODEL", "default")
    language = rag.LanguageModel(url, name) if url else None
    documents = rag.Documents.open(
        model,
        attributes={"date": "timestamp", "year": "i64", "president": "keyword"},
    )
    stops = list(STOPS)
    reached = threading.Semaphore(0)
    counts: list[int] = []

    def pass_stops(year: int) -> None:
        while stops and year >= stops[0]:
            stops.pop(0)
            reached.release()

    def write() -> None:
        counts.extend(stream(documents, speeches, pass_stops))
        pass_stops(STOPS[-1])

    writer = threading.Thread(target=write)
    began = time.perf_counter()
    writer.start()
    for year in STOPS:
        # The writer does not wait: a question sees what has arrived when it is asked.
        reached.acquire()
        ask(documents, year, language)
    writer.join()
    seconds = time.perf_counter() - began
    print(f"\n{counts[0]} speeches, {counts[1]:,} chunks embedded in {seconds:.1f} s")

    last = json.loads(speeches.read_text(encoding="utf-8").splitlines()[-1])
    text = last["text"].replace("the", "this", 1)
    change = documents.upsert(last["id"], text, last["attributes"])
    print(
        f"One word of {last['id']} changed: {change.embedded} chunk embedded,"
        f" {change.kept} kept, {change.removed} removed"
    )


if __name__ == "__main__":
    main()
