"""Documents as rows: text and metadata in the payload, and what can be filtered as attributes."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PLAIN = (str, bool, int, float, datetime.date)


def attributes(metadatas: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return what can be filtered, column by column; None where a document has no value."""
    names = dict.fromkeys(
        name for one in metadatas for name, value in one.items() if is_attribute(name, value)
    )
    return {name: [_value(name, one) for one in metadatas] for name in names}


def is_attribute(name: object, value: object) -> bool:
    """Return whether an attribute can hold a value; others are in the payload alone."""
    if not isinstance(name, str) or not name or name.startswith("$"):
        return False
    return isinstance(value, _PLAIN) or _is_list_of_texts(value)


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


def _value(name: str, metadata: Mapping[str, Any]) -> Any:
    value = metadata.get(name)
    return value if is_attribute(name, value) else None


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(
        isinstance(one, str) for one in value
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"metadata holds a {type(value).__name__}: pass what JSON has")
