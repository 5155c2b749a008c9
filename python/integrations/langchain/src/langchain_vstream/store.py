"""The vector store."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

import vstream
from langchain_vstream import documents
from langchain_vstream.filters import among_known
from vstream import metadata

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    from vstream.filters import Where


class VStream(VectorStore):
    """Documents in a VStream collection, in memory or in a directory.

    Parameters
    ----------
    embedding
        Turns texts into vectors.
    collection
        A collection with `id="string"` to use, or a group of a `vstream.GroupCollection` of such
        ids: then no search sees another group, and the metadata that it may hold are the group's
        attributes. Without one a collection is opened at `path`, or created.
    path
        A directory; the collection lives in memory without one.
    metric
        `cosine`, `l2` or `inner_product`, for a new collection.
    attributes
        Types of metadata that is filtered, for a new collection. Others get the type of their
        first value.
    dimension
        Numbers per vector; one text is embedded to learn it if it is left out.
    settings
        Further arguments of `vstream.Collection.create`.
    """

    def __init__(
        self,
        embedding: Embeddings,
        collection: vstream.Collection | vstream.Group | None = None,
        path: str | os.PathLike[str] | None = None,
        metric: str = "cosine",
        attributes: Mapping[str, str] | None = None,
        dimension: int | None = None,
        **settings: Any,
    ) -> None:
        """Open or create the collection."""
        self._embedding = embedding
        if collection is None:
            collection = self._open(embedding, path, metric, attributes, dimension, settings)
        self.collection = collection

    @staticmethod
    def _open(
        embedding: Embeddings,
        path: str | os.PathLike[str] | None,
        metric: str,
        attributes: Mapping[str, str] | None,
        dimension: int | None,
        settings: dict[str, Any],
    ) -> vstream.Collection:
        if path is not None and vstream.Collection.exists(path):
            return vstream.Collection.open(path)
        return vstream.Collection.create(
            dimension=dimension or len(embedding.embed_query("dimension")),
            metric=metric,
            path=path,
            id="string",
            attributes=attributes,
            open_attributes=True,
            **settings,
        )

    @property
    def embeddings(self) -> Embeddings:
        """What turns texts into vectors."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or replace those with the same ids; return the ids."""
        listed = list(texts)
        return self._add(listed, metadatas, ids, self._embedding.embed_documents(listed), kwargs)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts as `add_texts` does; the embedding is awaited."""
        listed = list(texts)
        vectors = await self._embedding.aembed_documents(listed)
        return await asyncio.to_thread(self._add, listed, metadatas, ids, vectors, kwargs)

    def _add(
        self,
        texts: list[str],
        metadatas: Sequence[dict[str, Any]] | None,
        ids: Sequence[str | None] | None,
        vectors: list[list[float]],
        more: dict[str, Any],
    ) -> list[str]:
        if more.keys() - {"batch_size"}:
            raise TypeError(f"unknown arguments: {', '.join(more)}")
        given = [{} for _ in texts] if metadatas is None else list(metadatas)
        if len(given) != len(texts):
            raise ValueError(f"there are {len(texts)} texts and {len(given)} metadatas")
        named = [None] * len(texts) if ids is None else list(ids)
        if len(named) != len(texts):
            raise ValueError(f"there are {len(texts)} texts and {len(named)} ids")
        chosen = [str(uuid.uuid4()) if one is None else one for one in named]
        if texts:
            self.collection.upsert(
                chosen,
                np.asarray(vectors, dtype=np.float32),
                metadata.columns(given, self.collection.attributes),
                [documents.payload(*one) for one in zip(texts, given, strict=True)],
            )
        return chosen

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Delete documents by id; with `filter=`, those for which it holds."""
        where = kwargs.pop("filter", None)
        if ids is None and where is None:
            raise ValueError("pass ids or filter: deleting everything is not what delete is for")
        if where is not None:
            parameters = kwargs.pop("parameters", None)
            self.collection.delete(where=self._known(where), parameters=parameters)
        if ids:
            self.collection.delete(ids)
        return True

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Delete as `delete` does."""
        return await asyncio.to_thread(self.delete, ids, **kwargs)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of some ids, in their order; unknown ids are left out."""
        found = self.collection.get(list(ids), with_=["payload"])
        payload = found.payload or []
        rows = [documents.document(*one) for one in zip(found.ids, payload, strict=True)]
        return documents.merged(ids, rows)

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents as `get_by_ids` does."""
        return await asyncio.to_thread(self.get_by_ids, ids)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents nearest to a text; `filter` and `parameters` as in the README."""
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, **kwargs)

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Search as `similarity_search` does; the embedding is awaited."""
        vector = await self._embedding.aembed_query(query)
        return await asyncio.to_thread(self.similarity_search_by_vector, vector, k, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return [one for one, _ in self._search(embedding, k, **kwargs)]

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Search as `similarity_search_by_vector` does."""
        return await asyncio.to_thread(self.similarity_search_by_vector, embedding, k, **kwargs)

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return documents with their distances: smaller is nearer."""
        return self._search(self._embedding.embed_query(query), k, **kwargs)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Search as `similarity_search_with_score` does; the embedding is awaited."""
        vector = await self._embedding.aembed_query(query)
        return await asyncio.to_thread(self._search, vector, k, **kwargs)

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that are near a text and not near each other."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **kwargs
        )

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Search as `max_marginal_relevance_search` does; the embedding is awaited."""
        vector = await self._embedding.aembed_query(query)
        return await self.amax_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, **kwargs
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and not near each other."""
        found = self._search(embedding, max(fetch_k, k), **kwargs)
        if not found:
            return []
        ids = [one.id for one, _ in found]
        rows = self.collection.get([one for one in ids if one is not None], [], vectors=True)
        vectors = dict(zip(rows.ids, rows.vectors, strict=True))
        # A document may have been deleted between the two calls.
        kept = [one for one, _ in found if one.id in vectors]
        query = np.asarray(embedding, dtype=np.float32)
        near = [vectors[one.id] for one in kept]
        return [kept[at] for at in maximal_marginal_relevance(query, near, lambda_mult, k)]

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Search as `max_marginal_relevance_search_by_vector` does."""
        search = self.max_marginal_relevance_search_by_vector
        return await asyncio.to_thread(search, embedding, k, fetch_k, lambda_mult, **kwargs)

    def _search(
        self,
        vector: list[float],
        k: int,
        filter: Where | None = None,
        parameters: Sequence[object] | None = None,
    ) -> list[tuple[Document, float]]:
        found = self.collection.search(
            np.asarray(vector, dtype=np.float32),
            k,
            where=self._known(filter),
            parameters=parameters,
            with_=["payload"],
        )
        payload = found.payload or []
        rows = [documents.document(*one) for one in zip(found.ids, payload, strict=True)]
        return list(zip(rows, found.distances.tolist(), strict=True))

    def _known(self, where: Where | None) -> Where | None:
        return None if where is None else among_known(where, self.collection.attributes)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return how a distance becomes a relevance from 0 to 1; 1 is the most relevant."""
        return {
            # A distance is 1 - cos(a, b), from 0 to 2.
            "cosine": lambda distance: 1.0 - distance / 2.0,
            # Squared.
            "l2": lambda distance: 1.0 / (1.0 + max(distance, 0.0) ** 0.5),
            # The negated product, of unit vectors from -1 to 1.
            "inner_product": lambda distance: (1.0 - distance) / 2.0,
        }[self.collection.metric]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store with some texts; further arguments as of the constructor."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store as `from_texts` does."""
        store = await asyncio.to_thread(cls, embedding, **kwargs)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store
