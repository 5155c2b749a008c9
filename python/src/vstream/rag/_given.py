"""Takes apart what a call gives for several documents: a value for each, of any library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vstream import _columns
from vstream.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What rows carry beside what the user gives them.
OWN = {"document": "keyword", "start": "i64", "end": "i64"}


def listed(what: str, given: str | Sequence[str]) -> list[str]:
    """Return one text, or several, as a list."""
    return [given] if isinstance(given, str) else list(_columns.as_list_or_array(given, what))


def by_document(
    attributes: Mapping[str, Any] | None, documents: int, *, one: bool
) -> list[dict[str, Any]]:
    """Return the attributes of each document."""
    if attributes is None:
        return [{} for _ in range(documents)]
    if not hasattr(attributes, "items"):
        message = "pass attributes as a dictionary from names to values"
        raise InvalidInput(f"the attributes are a {type(attributes).__name__}: {message}")
    if taken := OWN.keys() & set(attributes):
        raise InvalidInput(f"the attribute '{sorted(taken)[0]}' is taken: choose another name")
    if one:
        return [_present(attributes)]
    # By position: a series of pandas is indexed by its labels, and Arrow has values of its own.
    columns = {
        name: _columns.as_list_or_array(values, f"the attribute '{name}'")
        for name, values in attributes.items()
    }
    for name, values in columns.items():
        if len(values) != documents:
            raise InvalidInput(f"{name} has not one value per document: pass {documents}")
    return [
        _present({name: values[at] for name, values in columns.items()}) for at in range(documents)
    ]


def _present(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a document, with None for what other libraries have for no value."""
    return {
        name: None if _columns.is_missing(value) else value for name, value in attributes.items()
    }
