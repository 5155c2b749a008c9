"""Documents as the payloads of rows: text and metadata."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def payload(text: str, metadata: Mapping[str, Any]) -> bytes:
    """Return a document as the payload of its row."""
    return json.dumps({"text": text, "metadata": metadata}, default=_plain).encode()


def document(row_id: str, content: bytes | None) -> Document:
    """Return the document of a row."""
    read = {} if content is None else json.loads(content)
    return Document(id=row_id, page_content=read.get("text", ""), metadata=read.get("metadata", {}))


def merged(ids: Iterable[str], rows: Iterable[Document]) -> list[Document]:
    """Return documents in the order of ids; those that are missing are left out."""
    found = {row.id: row for row in rows}
    return [found[one] for one in ids if one in found]


def _plain(value: object) -> object:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"metadata holds a {type(value).__name__}: pass what JSON has")
