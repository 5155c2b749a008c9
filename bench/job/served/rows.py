"""What the server asks of an embedded database."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Rows(ABC):
    """Rows of one collection under cosine; calls may come from several threads at once."""

    @abstractmethod
    def upsert(self, ids: list[int], vectors: list[list[float]]) -> None:
        """Write rows; those that exist are replaced."""

    @abstractmethod
    def delete(self, ids: list[int]) -> None:
        """Remove rows; those that do not exist are skipped."""

    @abstractmethod
    def query(self, vector: list[float], k: int) -> list[int]:
        """Return the ids of the `k` nearest rows."""

    @abstractmethod
    def first_rows_written(self) -> None:
        """Make what a user makes once the first rows are there."""
