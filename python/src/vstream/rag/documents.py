"""Documents in a collection: the document is the unit that is written and that goes."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from vstream import _arguments
from vstream.collection import Collection
from vstream.errors import InvalidInput
from vstream.rag._folder import Folder
from vstream.rag._given import OWN, by_document, listed
from vstream.rag.answer import DocumentAnswer, Passage, extracted
from vstream.rag.model import split

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from vstream.filters import Where
    from vstream.rag.language import LanguageModel
    from vstream.rag.model import Chunk, Model

_PAGE = 10_000
# Chunks have ids such as `speech-7#0f3a…`, in which the hash has 32 digits.
_ID_BYTES_MAX = 400
# A search that met this many writes makes the next one wait.
_TRIES = 3


class Change(NamedTuple):
    """What an upsert did to the chunks of its documents.

    Attributes
    ----------
    embedded
        Chunks whose text is new: they were embedded.
    kept
        Chunks whose text was there already, maybe at another place.
    removed
        Chunks that are gone.
    """

    embedded: int
    kept: int
    removed: int


class _Edition(NamedTuple):
    """A document that is to be written; without chunks it goes."""

    document: str
    text: str
    attributes: Mapping[str, Any]
    chunks: Mapping[str, Chunk]


class Documents:
    """Documents that questions are asked of: cut into chunks, embedded, and indexed as they come.

    Make one with `Documents.open`.

    *The document is the unit.* `upsert` replaces all chunks of a document at one moment: a search
    sees the old ones or the new ones, never both. Chunks whose text is unchanged are not embedded
    again. On a disk a document is whole after a crash, too.

    *Threads.* Any thread may call any method. Writers take turns; a search waits for none of them,
    unless writes keep coming between its steps.

    Examples
    --------
    >>> model = rag.Model.open(models / "words")
    >>> documents = rag.Documents.open(model, attributes={"year": "i64"})
    >>> documents.upsert("a", "Peace prevails. Our harvest was good.", {"year": 1861})
    Change(embedded=1, kept=0, removed=0)
    >>> [found] = documents.search("the harvest")
    >>> found.document, found.attributes
    ('a', {'year': 1861})
    >>> documents.delete("a")
    1
    """

    _collection: Collection
    _model: Model
    _folder: Folder | None

    def __init__(self) -> None:
        """Refuse: documents are opened."""
        raise TypeError("use Documents.open")

    @classmethod
    def open(
        cls,
        model: Model,
        path: str | os.PathLike[str] | None = None,
        *,
        size: int = 500,
        overlap: int = 100,
        attributes: Mapping[str, str] | None = None,
        memory: int | None = None,
    ) -> Self:
        """Open the documents in a directory, or begin with none.

        Parameters
        ----------
        model
            Turns texts into vectors. A directory is opened with the model that it was made with.
        path
            A directory, made when absent. Without one the documents live in memory.
        size, overlap
            How documents are cut: see `split`. A directory keeps what it was made with.
        attributes
            Types of what documents carry, as for `Collection.create`. Not `document`, `start` and
            `end`, which are taken, nor the names that `Collection.create` does not take.
        memory
            As for `Collection.create`.

        Raises
        ------
        InvalidInput
            If the directory was made with another model or other settings.
        """
        split("", size, overlap)
        given = {} if attributes is None else dict(attributes)
        if taken := given.keys() & OWN.keys():
            raise InvalidInput(f"the attribute '{taken.pop()}' is taken: choose another name")
        made = object.__new__(cls)
        made._start(model, size, overlap)
        schema = {**OWN, **given}
        if path is None:
            made._folder = None
            made._collection = Collection.create(
                model.dimension, "cosine", id="string", attributes=schema
            )
            return made
        kept = {
            "model": model.fingerprint,
            "dimension": model.dimension,
            "size": size,
            "overlap": overlap,
            "attributes": given,
        }
        folder = made._folder = Folder.open(Path(_arguments.path(path)), kept)
        if Collection.exists(folder.rows):
            made._collection = Collection.open(folder.rows)
            made._read()
        else:
            made._begin(folder, schema, memory)
        if pending := folder.pending():
            # A crash came between the rows of a document.
            # Nobody was told yet that these are there, so what is refused is not.
            for one in pending:
                with suppress(InvalidInput):
                    made._finish([made._edition(*one)])
            folder.settle()
        return made

    def _begin(self, folder: Folder, schema: Mapping[str, str], memory: int | None) -> None:
        try:
            self._collection = Collection.create(
                self._model.dimension,
                "cosine",
                path=folder.rows,
                id="string",
                attributes=schema,
                memory=memory,
            )
        except InvalidInput:
            # The directory must not keep settings that no collection has.
            folder.undo()
            raise

    def _start(self, model: Model, size: int, overlap: int) -> None:
        self._model = model
        self._size = size
        self._overlap = overlap
        # By document: its chunks, by their ids, and where they lie.
        self._chunks: dict[str, dict[str, tuple[int, int]]] = {}
        # By document: what is being written, or was when it was interrupted. Of the latter rows may
        # be in the collection of which `_chunks` knows nothing.
        self._unsettled: dict[str, _Edition] = {}
        self._writing = threading.Lock()
        self._changing = threading.Lock()
        # Odd while rows of a document change.
        self._sequence = 0

    @property
    def model(self) -> Model:
        """What turns texts into vectors."""
        return self._model

    @property
    def collection(self) -> Collection:
        """The collection of the chunks, to read."""
        return self._collection

    def upsert(
        self,
        documents: str | Sequence[str],
        texts: str | Sequence[str],
        attributes: Mapping[str, Any] | None = None,
    ) -> Change:
        """Add documents, or replace those with the same ids.

        Parameters
        ----------
        documents
            One id, or several, of at most 400 bytes in UTF-8. Each document is replaced by itself;
            of one that comes twice the last text stays.
        texts
            A text for each. A document without a word is not kept.
        attributes
            Values by name, one or one per document.

        Examples
        --------
        >>> documents = rag.Documents.open(rag.Model.open(models / "words"), size=24, overlap=0)
        >>> documents.upsert("a", "Peace prevails. Our harvest was good.")
        Change(embedded=2, kept=0, removed=0)
        >>> documents.upsert("a", "Taxes fall. Our harvest was good.")
        Change(embedded=1, kept=1, removed=1)
        """
        ids, given = listed("the documents", documents), listed("the texts", texts)
        if isinstance(documents, str) != isinstance(texts, str) or len(ids) != len(given):
            raise InvalidInput(f"there are {len(ids)} documents and {len(given)} texts: pair them")
        rows = by_document(attributes, len(ids), one=isinstance(documents, str))
        with self._writing:
            # Of one that comes twice the last one counts.
            editions = {
                one.document: one
                for one in starmap(self._edition, zip(ids, given, rows, strict=True))
            }
            return self._write(list(editions.values()))

    def delete(self, documents: str | Sequence[str]) -> int:
        """Remove documents; return how many were there.

        Parameters
        ----------
        documents
            One id, or several. An id that does not exist is no error.
        """
        with self._writing:
            self._read_unsettled()
            named = dict.fromkeys(listed("the documents", documents))
            there = sum(one in self._chunks for one in named)
            # An interrupted write of a document goes with it, or it would bring it back.
            goes = [one for one in named if one in self._chunks or one in self._unsettled]
            self._write([_Edition(one, "", {}, {}) for one in goes])
            return there

    def get(self, document: str) -> list[Passage]:
        """Return the chunks of a document in the order of its text; none if it does not exist."""
        with self._changing:
            ids = list(self._chunks.get(document, ()))
            found = self._collection.get(ids)
        rows = [_passage(row, float("nan")) for row in found]
        return sorted(rows, key=lambda one: one.start)

    def search(self, question: str, k: int = 5, *, where: Where | None = None) -> list[Passage]:
        """Return the chunks nearest to a question, nearest first.

        Parameters
        ----------
        question
            A text of at most 64 KiB.
        k
            Chunks to return, 1 to 1,000.
        where
            A condition on the attributes, as in `Collection.search`; `document` has the ids.
        """
        return self._search(self._embedded(question), k, where)

    def ask(
        self,
        question: str,
        k: int = 5,
        *,
        where: Where | None = None,
        sentences: int = 2,
        language: LanguageModel | None = None,
    ) -> DocumentAnswer:
        """Answer a question from the nearest chunks.

        Without a language model the answer is the `sentences` of them that are nearest to the
        question, word for word, each with the number of its passage.

        Parameters
        ----------
        question, k, where
            As in `search`.
        sentences
            Sentences of the answer, 1 or more.
        language
            Writes the answer from the passages instead.

        Examples
        --------
        >>> documents = rag.Documents.open(rag.Model.open(models / "words"))
        >>> change = documents.upsert("1861", "Peace prevails. Our harvest was good.")
        >>> answer = documents.ask("our harvest was good?", sentences=1)
        >>> answer.text, answer.citations()
        ('Our harvest was good. [1]', ['[1] 1861, 0-37'])
        """
        if _arguments.integer("sentences", sentences) < 1:
            raise InvalidInput("sentences is 0: ask for one at least")
        vector = self._embedded(question)
        passages = self._search(vector, k, where)
        if language is not None and passages:
            return DocumentAnswer(language.answer(question, passages), passages)
        return DocumentAnswer(extracted(self._model, vector, passages, sentences), passages)

    def close(self) -> None:
        """Close the collection. What was written is on the disk already."""
        with self._writing:
            self._collection.close()

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._chunks)

    def __contains__(self, document: object) -> bool:
        """Return whether a document is there."""
        return document in self._chunks

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the documents."""
        return iter(list(self._chunks))

    def __enter__(self) -> Self:
        """Return the documents."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close them."""
        self.close()

    def __repr__(self) -> str:
        """Return the model and the number of documents, for display."""
        return f"Documents({self._model!r}, documents={len(self)})"

    def _embedded(self, question: str) -> NDArray[np.float32]:
        texts = [_arguments.text("the question", question)]
        vector: NDArray[np.float32] = self._model.embed(texts)[0]
        if not vector.any():
            raise InvalidInput("the question has no words: ask another one")
        return vector

    def _search(self, vector: NDArray[np.float32], k: int, where: Where | None) -> list[Passage]:
        def once() -> list[Passage]:
            found = self._collection.search(vector, k=k, where=where, with_=_everything(names))
            return [_passage(row, row.pop("distance")) for row in found.rows()]

        names = self._collection.attributes
        for _ in range(_TRIES):
            before = self._sequence
            if before % 2 == 1:
                break
            passages = once()
            if before == self._sequence:
                return passages
        with self._changing:
            return once()

    def _edition(self, document: str, text: str, attributes: Mapping[str, Any]) -> _Edition:
        """Cut a document; its chunks have ids that their texts decide."""
        _arguments.text("a document's id", document)
        if not 0 < len(document.encode()) <= _ID_BYTES_MAX:
            raise InvalidInput(f"a document's id has 1 to {_ID_BYTES_MAX} bytes: change it")
        for name, value in attributes.items():
            # Before the directory keeps them; others are checked with the rows.
            _arguments.text("the name of an attribute", name)
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(one, str):
                    _arguments.text(f"the attribute '{name}'", one)
        chunks: dict[str, Chunk] = {}
        for chunk in split(text, self._size, self._overlap):
            id = base = f"{document}#{chunk.hash}"
            again = 1
            while id in chunks:
                again += 1
                id = f"{base}-{again}"
            chunks[id] = chunk
        return _Edition(document, text, attributes, chunks)

    def _write(self, new: list[_Edition]) -> Change:
        """Write documents, each once, after others whose write was interrupted.

        A document that is written now takes the place of its interrupted write: so one that can
        never be finished, such as on a full disk, can be deleted.
        """
        before = self._unsettled
        again = [one for one in new if one.document in before]
        for one in again:
            if one.chunks:
                self._check(one)
        self._read_unsettled()
        written = {one.document: one for one in new}
        self._unsettled = {**before, **written}
        if self._folder is not None and self._unsettled:
            planned = self._unsettled.values()
            try:
                self._folder.plan([(one.document, one.text, one.attributes) for one in planned])
            except InvalidInput:
                # Nothing is planned, and later writes need not fail for it.
                self._unsettled = before
                raise
        self._finish([one for one in before.values() if one.document not in written])
        try:
            # Those of which half may be there come first, as others may be refused.
            change = self._apply(again + [one for one in new if one.document not in before])
        except InvalidInput:
            # Refused before a row of the document changed; those before it are whole.
            self._settle()
            raise
        self._settle()
        return change

    def _check(self, one: _Edition) -> None:
        """Refuse attributes that the collection would refuse, before anything changes."""
        kinds = self._collection.attributes
        own = {"document": one.document, "start": 0, "end": 0}
        with Collection.create(1, id="string", attributes=kinds) as scratch:
            scratch.upsert("one", [1.0], {**own, **one.attributes})

    def _finish(self, interrupted: Sequence[_Edition]) -> None:
        """Write documents; one that is refused stays as it is, as none of its rows was written."""
        for one in interrupted:
            # It is no fault of the documents of this call.
            with suppress(InvalidInput):
                self._apply([one])
            self._unsettled.pop(one.document, None)

    def _settle(self) -> None:
        self._unsettled = {}
        if self._folder is not None:
            self._folder.settle()

    def _apply(self, editions: list[_Edition]) -> Change:
        """Embed what is new, then change the rows of each document at one moment."""
        new = [
            (one.document, id)
            for one in editions
            for id in one.chunks
            if id not in self._chunks.get(one.document, {})
        ]
        by_document = {one.document: one for one in editions}
        texts = []
        for document, id in new:
            chunk = by_document[document].chunks[id]
            texts.append(by_document[document].text[chunk.start : chunk.end])
        vectors = self._model.embed(texts)
        # Nothing finds a chunk without words, such as a line of dashes.
        rows = {
            id: (text, vector)
            for (_, id), text, vector in zip(new, texts, vectors, strict=True)
            if vector.any()
        }
        kept = removed = 0
        for one in editions:
            stays, goes = self._replace(one, rows)
            kept += stays
            removed += goes
        return Change(len(rows), kept, removed)

    def _replace(
        self, one: _Edition, rows: Mapping[str, tuple[str, NDArray[np.float32]]]
    ) -> tuple[int, int]:
        """Change the rows of a document; return how many stay and how many go."""
        old = self._chunks.get(one.document, {})
        added = [id for id in one.chunks if id in rows]
        stays = [id for id in one.chunks if id in old]
        goes = [id for id in old if id not in one.chunks]

        def values(ids: list[str]) -> dict[str, Any]:
            chunks = [one.chunks[id] for id in ids]
            own = {
                "document": [one.document] * len(ids),
                "start": [chunk.start for chunk in chunks],
                "end": [chunk.end for chunk in chunks],
            }
            return {**own, **{name: [value] * len(ids) for name, value in one.attributes.items()}}

        with self._change():
            if added:
                self._collection.upsert(
                    added,
                    [rows[id][1] for id in added],
                    values(added),
                    [rows[id][0] for id in added],
                )
            if stays:
                absent = dict.fromkeys(self._collection.attributes.keys() - OWN.keys())
                self._collection.update(
                    stays, {**{name: [None] * len(stays) for name in absent}, **values(stays)}
                )
            if goes:
                self._collection.delete(goes)
            places = {id: one.chunks[id][:2] for id in one.chunks if id in old or id in rows}
            if places:
                self._chunks[one.document] = places
            else:
                self._chunks.pop(one.document, None)
            self._unsettled.pop(one.document, None)
        return len(stays), len(goes)

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._changing:
            self._sequence += 1
            try:
                yield
            finally:
                self._sequence += 1

    def _read(self) -> None:
        """Find out which chunks there are."""
        for document, id, place in self._places(None):
            self._chunks.setdefault(document, {})[id] = place

    def _read_unsettled(self) -> None:
        """Find out which chunks documents have whose write was interrupted."""
        for document in self._unsettled:
            found = {id: place for _, id, place in self._places({"document": document})}
            with self._changing:
                if found:
                    self._chunks[document] = found
                else:
                    self._chunks.pop(document, None)

    def _places(self, where: Where | None) -> Iterator[tuple[str, str, tuple[int, int]]]:
        """Yield the document, the id and the place of chunks."""
        after = None
        while True:
            rows, after = self._collection.scroll(where, _PAGE, after, list(OWN))
            for row in rows:
                yield row["document"], row["id"], (row["start"], row["end"])
            if after is None:
                return


def _everything(names: Mapping[str, str]) -> list[str]:
    return [*names, "payload"]


def _passage(row: dict[str, Any], distance: float) -> Passage:
    row.pop("id")
    own = row.pop("document"), row.pop("start"), row.pop("end")
    text = row.pop("payload").decode()
    given = {name: value for name, value in row.items() if value is not None}
    return Passage(*own, text, float(distance), given)
