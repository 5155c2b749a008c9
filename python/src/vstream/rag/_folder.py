"""The directory of documents: their settings, their rows, and the write that is under way.

::

    documents.json   model and settings, written once
    pending.json     documents whose rows are changing; gone when they have changed
    rows/            the collection
"""

from __future__ import annotations

import json
import os
from datetime import date
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vstream import _moments
from vstream.errors import CorruptData, InvalidInput, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    # Id, text and attributes; no text for one that goes.
    Pending = tuple[str, str, Mapping[str, Any]]

_SETTINGS = "documents.json"
_PENDING = "pending.json"


class Folder:
    """The directory of documents."""

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        self._path = path
        self._is_new = False

    @classmethod
    def open(cls, path: Path, settings: dict[str, Any]) -> Self:
        """Make the directory, or compare its settings.

        Raises
        ------
        InvalidInput
            If it was made with others.
        """
        folder = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from None
        found = folder._read(_SETTINGS)
        if found is None:
            if any(one.name != f".{_SETTINGS}" for one in path.iterdir()):
                raise InvalidInput(f"{path} holds something else: choose another directory")
            folder._write(_SETTINGS, settings)
            folder._is_new = True
        elif found != settings:
            names = [name for name, value in settings.items() if found.get(name) != value]
            raise InvalidInput(
                f"{path} was made with another {' and '.join(names)}: open it with the same"
            )
        return folder

    @property
    def rows(self) -> Path:
        """Where the collection is."""
        return self._path / "rows"

    def undo(self) -> None:
        """Forget the settings, if this call kept them and there are no rows yet."""
        if self._is_new and not self.rows.exists():
            (self._path / _SETTINGS).unlink(missing_ok=True)

    def plan(self, documents: list[Pending]) -> None:
        """Keep what is about to be written."""
        self._write(_PENDING, documents)

    def settle(self) -> None:
        """Forget it: it was written."""
        (self._path / _PENDING).unlink(missing_ok=True)

    def pending(self) -> list[Pending]:
        """Return what was about to be written when the process ended."""
        return [tuple(one) for one in self._read(_PENDING) or []]

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self._path / name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise CorruptData(f"{self._path / name} is damaged: restore it") from None
        except OSError as error:
            raise StorageError(f"{self._path / name}: {error.strerror}") from None

    def _write(self, name: str, content: object) -> None:
        """Write a file whole or not at all."""
        beside = self._path / f".{name}"
        text = json.dumps(content, ensure_ascii=False, default=_plain)
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path / name)
            place = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(place)
            finally:
                os.close(place)
        except OSError as error:
            raise StorageError(f"{self._path / name}: {error.strerror}") from None


def _plain(value: object) -> object:
    """Return an attribute as JSON has it."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, np.datetime64):
        # Its `tolist` may be a number of another unit than milliseconds.
        if not _moments.are_near(value):
            raise InvalidInput(f"an attribute is {value!r}: pass {_moments.WANTED}")
        return str(value.astype("datetime64[ms]"))
    if hasattr(value, "tolist"):
        return value.tolist()
    raise InvalidInput(f"an attribute is a {type(value).__name__}: pass a plain value")
