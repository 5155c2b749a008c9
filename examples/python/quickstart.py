"""A search for book titles that forgives typing errors, and that learns while it is asked.

    pip install ./python
    python examples/python/quickstart.py

The vector of a title counts its groups of three letters, so titles that are spelled alike lie close
together. Then 50,000 random vectors stream in while searches go on.
"""

import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import vstream

DIMENSION = 256
TITLES = (
    """
Pride and Prejudice|Sense and Sensibility|Wuthering Heights|Jane Eyre|Great Expectations
Oliver Twist|A Tale of Two Cities|Moby-Dick|The Scarlet Letter|Walden|Middlemarch|Dracula
Treasure Island|Kidnapped|The Time Machine|The War of the Worlds|The Invisible Man|Ulysses
The Picture of Dorian Gray|The Importance of Being Earnest|Crime and Punishment|War and Peace
Anna Karenina|The Brothers Karamazov|Madame Bovary|The Count of Monte Cristo|Don Quixote
The Three Musketeers|Les Miserables|Around the World in Eighty Days|The Odyssey|The Iliad
Twenty Thousand Leagues under the Sea|Alice's Adventures in Wonderland|Through the Looking-Glass
The Adventures of Tom Sawyer|Adventures of Huckleberry Finn|The Jungle Book|Peter Pan|Emma
The Wonderful Wizard of Oz|The Secret Garden|Little Women|Gulliver's Travels|Robinson Crusoe
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def spelling(text: str) -> NDArray[np.float32]:
    """Count the groups of three letters; its checksum gives each group a position."""
    vector = np.zeros(DIMENSION, np.float32)
    padded = f"  {text.lower()}  "
    for at in range(len(padded) - 2):
        vector[zlib.crc32(padded[at : at + 3].encode()) % DIMENSION] += 1
    return vector


def show(books: vstream.Collection, titles: dict[int, str], typed: str) -> None:
    ids, distances = books.search(spelling(typed), k=3)
    found = [
        f"{titles[i]} ({d:.2f})" for i, d in zip(ids.tolist(), distances, strict=True)
    ]
    print(f"  {typed!r:24} -> {', '.join(found)}")


def titles_by_spelling(place: Path) -> None:
    titles = dict(enumerate(TITLES))
    with vstream.Collection.create(DIMENSION, metric="cosine", path=place) as books:
        books.upsert(list(titles), np.stack([spelling(title) for title in TITLES]))
        print(f"{len(books)} titles. What was meant? (0.00 is the same spelling)")
        for typed in [
            "prid and prejudise",
            "wizzard of oz",
            "hukleberry fin",
            "monte kristo",
        ]:
            show(books, titles, typed)

        print("A title arrives, and is found by the next search:")
        show(books, titles, "frankenstien")
        new = len(titles)
        titles[new] = "Frankenstein"
        books.upsert(new, spelling(titles[new]))
        show(books, titles, "frankenstien")

        print("It is deleted, and is gone from the next search:")
        books.delete(new)
        show(books, titles, "frankenstien")
    with vstream.Collection.open(place) as books:
        print(
            f"Closed, and opened again from its directory: {books.stats().live_rows} titles."
        )


def searching_while_writing() -> None:
    rng = np.random.default_rng(1)
    centers = rng.standard_normal((500, 32), dtype=np.float32) * 2
    near = centers[rng.integers(500, size=50_200)]
    rows = near + rng.standard_normal(near.shape, dtype=np.float32)
    rows, queries = rows[:50_000], rows[50_000:]
    stream = vstream.Collection.create(dimension=32)
    print("50,000 vectors of 32 numbers arrive one by one; every 50th time we ask:")
    inserts, searches = 0.0, []
    for i, row in enumerate(rows):
        began = time.perf_counter()
        stream.upsert(i, row)
        inserts += time.perf_counter() - began
        if i % 50 == 0:
            began = time.perf_counter()
            stream.search(queries[i % 200], k=10)
            searches.append(time.perf_counter() - began)
    print(f"  an insert took {inserts / len(rows) * 1e6:.0f} microseconds on average,")
    print(
        f"  a search meanwhile {np.median(searches) * 1e6:.0f} microseconds (median)."
    )
    print(
        "Searches go on for three seconds; the engine checks some of its answers meanwhile:"
    )
    until = time.perf_counter() + 3
    while time.perf_counter() < until:
        found, _ = stream.search_batch(queries, k=10)
    if (estimate := stream.stats().recall) is not None:
        print(
            f"  it thinks that it finds {estimate.recall:.1%} of the 10 true neighbours,"
        )
    true, _ = stream.search_batch(queries, k=10, exact=True)
    pairs = zip(found, true, strict=True)
    share = np.mean([len(np.intersect1d(f, t)) / 10 for f, t in pairs])
    print(
        f"  and it finds {share:.1%} (it was told to aim at {stream.recall_target:.0%})."
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        titles_by_spelling(Path(directory) / "titles")
    searching_while_writing()
