"""Models that turn texts into vectors, and the chunks of a text."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from vstream import _arguments, _native
from vstream.errors import InvalidInput

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Chunk(NamedTuple):
    """A part of a text.

    Attributes
    ----------
    start, end
        Its place: the chunk is `text[start:end]`.
    hash
        32 hexadecimal digits that change with its text.
    """

    start: int
    end: int
    hash: str


def split(text: str, size: int = 500, overlap: int = 100) -> list[Chunk]:
    """Cut a text into chunks at sentences and paragraphs.

    Parameters
    ----------
    text
        At most 16 MiB in UTF-8.
    size
        Most characters of a chunk, 16 to 8,000. Only a sentence that is longer is cut.
    overlap
        Most characters that a chunk repeats of the one before: whole sentences; at most half of
        `size`.

    Examples
    --------
    >>> text = "Peace prevails. The harvest was good. Taxes fall."
    >>> [text[chunk.start : chunk.end] for chunk in rag.split(text, size=24, overlap=0)]
    ['Peace prevails.', 'The harvest was good.', 'Taxes fall.']
    """
    places = _native.split(
        _arguments.text("the text", text),
        _arguments.integer("size", size),
        _arguments.integer("overlap", overlap),
    )
    return [Chunk(*place) for place in places]


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the places of the sentences of a text: `text[start:end]`.

    Examples
    --------
    >>> rag.sentences("Peace prevails. Taxes fall.")
    [(0, 15), (16, 27)]
    """
    return _native.sentences(_arguments.text("the text", text))


class Model:
    """A model whose files lie on this machine: it turns texts into vectors of length 1.

    Make one with `Model.open`. Any thread may use it, without the interpreter lock; a transformer
    computes for one of them at a time.

    Examples
    --------
    >>> model = rag.Model.open(models / "words")
    >>> model
    Model(kind='static', dimension=8)
    >>> model.embed(["peace", "war and peace"]).shape
    (2, 8)
    """

    _native: _native.Model

    def __init__(self) -> None:
        """Refuse: a model is opened."""
        raise TypeError("use Model.open")

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        runtime: str | os.PathLike[str] | None = None,
        tokens_max: int = 256,
        threads: int = 1,
    ) -> Self:
        """Open a model.

        Parameters
        ----------
        path
            A folder with `tokenizer.json` and either `model.safetensors`, a table with a vector per
            token, or `model.onnx`, a sentence transformer; or one of the latter two files.
        runtime
            The shared library of ONNX Runtime, for a transformer. If it is left out, that of the
            package `onnxruntime`, if it is installed; else the file that the variable
            `ORT_DYLIB_PATH` names, or `libonnxruntime.so` beside the model.
        tokens_max
            Tokens of a text that a transformer reads; the rest is cut off.
        threads
            Threads that a transformer computes with.

        Raises
        ------
        InvalidInput
            If an argument is out of range.
        Unsupported
            If the files are those of a model of another kind.
        StorageError
            If a file is missing or cannot be read.
        CorruptData
            If a file is damaged.
        """
        made = object.__new__(cls)
        library = _installed_runtime() if runtime is None else _arguments.path(runtime)
        made._native = _native.Model.open(
            _arguments.path(path),
            library,
            _arguments.integer("tokens_max", tokens_max),
            _arguments.integer("threads", threads),
        )
        return made

    @property
    def kind(self) -> str:
        """`static` for a table, `transformer` for a sentence transformer."""
        return self._native.kind

    @property
    def dimension(self) -> int:
        """Numbers per vector."""
        return self._native.dimension

    @property
    def fingerprint(self) -> str:
        """Digits that change with the files of the model: vectors of different ones never mix."""
        return self._native.fingerprint

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a matrix with a vector of length 1 for each text; zeros for one without tokens.

        Parameters
        ----------
        texts
            Texts of at most 64 KiB in UTF-8 each.
        """
        if isinstance(texts, str):
            raise InvalidInput("texts is one text: pass a list")
        return self._native.embed([_arguments.text("a text", text) for text in texts])

    def __repr__(self) -> str:
        """Return kind and dimension, for display."""
        return f"Model(kind={self.kind!r}, dimension={self.dimension})"


def _installed_runtime() -> str | None:
    """Return the library inside the package `onnxruntime`, which is not imported."""
    found = importlib.util.find_spec("onnxruntime")
    for folder in (found.submodule_search_locations or []) if found else []:
        for library in sorted(Path(folder, "capi").glob("libonnxruntime.so*")):
            return str(library)
    return None
