"""What a question finds: passages with their places, and an answer put together from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vstream import _native

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vstream.rag.model import Model

# Most sentences that are compared with a question.
_SENTENCES_MAX = 64


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of a document that a question found.

    Attributes
    ----------
    document
        The document's id.
    start, end
        The chunk's place in the document's text: `text[start:end]`.
    text
        The chunk itself.
    distance
        1 - cos of question and chunk; smaller is closer. NaN where nothing was asked.
    attributes
        The document's attributes.
    """

    document: str
    start: int
    end: int
    text: str
    distance: float
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """An answer, and what it stands on.

    Attributes
    ----------
    text
        Sentences of the passages, or what the language model wrote. `[1]` stands for the first
        passage.
    passages
        What the question found, nearest first.
    """

    text: str
    passages: Sequence[Passage]

    def citations(self) -> list[str]:
        """Return a line per passage that the text cites: its number, document and place.

        Examples
        --------
        >>> passage = rag.Passage("1861", 34, 55, "Our harvest was good.", 0.4)
        >>> rag.DocumentAnswer("Our harvest was good. [1]", [passage]).citations()
        ['[1] 1861, 34-55']
        """
        return [
            f"[{number}] {one.document}, {one.start}-{one.end}"
            for number, one in enumerate(self.passages, 1)
            if f"[{number}]" in self.text
        ]


def extracted(
    model: Model, question: NDArray[np.float32], passages: Sequence[Passage], sentences: int
) -> str:
    """Return the sentences of the passages that are nearest to a question, each with its number.

    1. The passages are cut into sentences, in their order, and these are embedded.
    2. The nearest `sentences` are taken, a repeated one once.
    3. They stand in the order of the passages and of the text.
    """
    found: dict[str, int] = {}
    for number, passage in enumerate(passages, 1):
        for start, end in _native.sentences(passage.text):
            found.setdefault(" ".join(passage.text[start:end].split()), number)
    listed = list(found.items())[:_SENTENCES_MAX]
    if not listed:
        return ""
    near = model.embed([text for text, _ in listed]) @ question
    best = sorted(sorted(range(len(listed)), key=lambda at: -near[at])[:sentences])
    return " ".join(f"{listed[at][0]} [{listed[at][1]}]" for at in best)
