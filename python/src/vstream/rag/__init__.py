"""Documents in, answers out: texts are cut, embedded, indexed, and found by questions.

>>> from vstream import rag
>>> model = rag.Model.open(models / "words")
>>> with rag.Documents.open(model) as documents:
...     change = documents.upsert("1861", "Peace prevails with every nation. Our harvest was good.")
...     documents.ask("our harvest was good?", sentences=1).text
'Our harvest was good. [1]'
"""

from vstream.rag.answer import DocumentAnswer, Passage
from vstream.rag.documents import Change, Documents
from vstream.rag.language import LanguageModel
from vstream.rag.model import Chunk, Model, sentences, split

__all__ = [
    "Change",
    "Chunk",
    "DocumentAnswer",
    "Documents",
    "LanguageModel",
    "Model",
    "Passage",
    "sentences",
    "split",
]
