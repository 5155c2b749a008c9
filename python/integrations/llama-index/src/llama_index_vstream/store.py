"""The vector store."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

import vstream
from llama_index_vstream.filters import NEVER, where
from vstream import metadata

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from llama_index.core.schema import BaseNode

# The attribute by which `delete` finds the nodes of a document.
REF_DOC_ID = "ref_doc_id"
_PAGE = 1000
_MMR_FETCHED = 4


class VStreamVectorStore(BasePydanticVectorStore):
    """Nodes in a VStream collection, in memory or in a directory.

    Parameters
    ----------
    collection
        A collection with `id="string"` to use, or a group of a `vstream.GroupCollection` of such
        ids, whose attributes are the metadata that nodes may have, and `ref_doc_id`. Without one a
        collection is opened at `path`, or created.
    dimension
        Numbers per embedding, for a new collection.
    path
        A directory; the collection lives in memory without one.
    metric
        `cosine`, `l2` or `inner_product`, for a new collection.
    attributes
        Types of metadata that is filtered, for a new collection. Others get the type of their
        first value.
    """

    stores_text: bool = True
    flat_metadata: bool = False

    _collection: vstream.Collection | vstream.Group = PrivateAttr()

    def __init__(
        self,
        collection: vstream.Collection | vstream.Group | None = None,
        dimension: int | None = None,
        path: str | os.PathLike[str] | None = None,
        metric: str = "cosine",
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Open or create the collection."""
        super().__init__()
        if collection is None and path is not None and vstream.Collection.exists(path):
            collection = vstream.Collection.open(path)
        if collection is None:
            if dimension is None:
                raise ValueError("a new collection needs the dimension of the embeddings")
            collection = vstream.Collection.create(
                dimension,
                metric,
                path=path,
                id="string",
                attributes={REF_DOC_ID: "keyword", **(attributes or {})},
                open_attributes=True,
            )
        self._collection = collection

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the class is stored."""
        return "VStreamVectorStore"

    @property
    def client(self) -> vstream.Collection | vstream.Group:
        """The collection, or the group."""
        return self._collection

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Add nodes with their embeddings, or replace those with the same ids; return the ids."""
        if not nodes:
            return []
        ids = [node.node_id for node in nodes]
        vectors = np.asarray([node.get_embedding() for node in nodes], dtype=np.float32)
        contents = [node_to_metadata_dict(node, remove_text=False) for node in nodes]
        self._collection.upsert(
            ids,
            vectors,
            _attributes(nodes, self._collection.attributes),
            [json.dumps(one).encode() for one in contents],
        )
        return ids

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes as `add` does."""
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Delete all nodes of a document."""
        self._collection.delete(where=self._of_documents([ref_doc_id]))

    async def adelete(self, ref_doc_id: str, **kwargs: Any) -> None:
        """Delete as `delete` does."""
        await asyncio.to_thread(self.delete, ref_doc_id, **kwargs)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes of some ids, in their order, or all nodes; those that match alone."""
        return [node for node, _ in self._chosen(node_ids, filters)]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes as `get_nodes` does."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **_: Any,
    ) -> None:
        """Delete the nodes that `get_nodes` would return."""
        if node_ids is None and filters is None:
            raise ValueError("pass node_ids or filters, or call clear")
        if filters is None:
            self._collection.delete(node_ids or [])
            return
        condition = where(filters, self._collection)
        self._collection.delete(where=_and_ids(condition, node_ids) or {"must": []})

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **kwargs: Any,
    ) -> None:
        """Delete as `delete_nodes` does."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters, **kwargs)

    def clear(self) -> None:
        """Delete all nodes."""
        self._collection.delete(where={"must": []})

    async def aclear(self) -> None:
        """Delete as `clear` does."""
        await asyncio.to_thread(self.clear)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to an embedding; in MMR mode those that also differ."""
        if query.query_embedding is None:
            raise ValueError("the query has no embedding")
        if query.mode not in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR):
            raise NotImplementedError(f"queries of mode {query.mode.value} are not supported")
        condition = _and_ids(where(query.filters, self._collection), query.node_ids)
        if query.doc_ids is not None:
            of_docs = self._of_documents(query.doc_ids)
            condition = {"must": [of_docs, *([] if condition is None else [condition])]}
        is_mmr = query.mode == VectorStoreQueryMode.MMR
        wanted = query.similarity_top_k
        k = kwargs.get("mmr_prefetch_k", wanted * _MMR_FETCHED) if is_mmr else wanted
        vector = np.asarray(query.query_embedding, dtype=np.float32)
        found = self._collection.search(vector, k, where=condition, with_=["payload"])
        nodes = [metadata_dict_to_node(content) for content in found.json()]
        similarities = [self._similarity(distance) for distance in found.distances.tolist()]
        ids = list(found.ids)
        if is_mmr and ids:
            return self._diverse(query, ids, nodes)
        return VectorStoreQueryResult(nodes=nodes, similarities=similarities, ids=ids)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Query as `query` does."""
        return await asyncio.to_thread(self.query, query, **kwargs)

    def _diverse(
        self, query: VectorStoreQuery, ids: list[str], nodes: list[BaseNode]
    ) -> VectorStoreQueryResult:
        rows = self._collection.get(ids, [], vectors=True)
        vectors = dict(zip(rows.ids, rows.vectors, strict=True))
        # A node may have been deleted between the two calls.
        kept = {one: node for one, node in zip(ids, nodes, strict=True) if one in vectors}
        scores, chosen = get_top_k_mmr_embeddings(
            query.query_embedding,
            [vectors[one].tolist() for one in kept],
            similarity_top_k=query.similarity_top_k,
            embedding_ids=list(kept),
            mmr_threshold=query.mmr_threshold,
        )
        return VectorStoreQueryResult(
            nodes=[kept[one] for one in chosen], similarities=list(scores), ids=list(chosen)
        )

    def _of_documents(self, ref_doc_ids: Sequence[str]) -> dict[str, Any]:
        """Return the condition that a node is one of these documents'."""
        if REF_DOC_ID not in self._collection.attributes:
            # A collection that was given has the attribute only once there are nodes.
            return NEVER
        return {"must": [{"key": REF_DOC_ID, "match": {"any": list(ref_doc_ids)}}]}

    def _similarity(self, distance: float) -> float:
        """Return the similarity of a distance: the cosine, the product, or 1 / (1 + distance)."""
        if self._collection.metric == "cosine":
            return 1.0 - distance
        if self._collection.metric == "inner_product":
            return -distance
        return 1.0 / (1.0 + max(distance, 0.0) ** 0.5)

    def _chosen(
        self, node_ids: list[str] | None, filters: MetadataFilters | None
    ) -> Iterator[tuple[BaseNode, str]]:
        condition = _and_ids(where(filters, self._collection), node_ids)
        if node_ids is not None and filters is None:
            rows = self._collection.get(node_ids, ["payload"])
            yield from zip(map(metadata_dict_to_node, rows.json()), rows.ids, strict=True)
            return
        after = None
        while True:
            rows, after = self._collection.scroll(
                condition, limit=_PAGE, after=after, with_=["payload"]
            )
            yield from zip(map(metadata_dict_to_node, rows.json()), rows.ids, strict=True)
            if after is None:
                return


def _and_ids(condition: dict[str, Any] | None, node_ids: list[str] | None) -> dict[str, Any] | None:
    if node_ids is None:
        return condition
    among = {"has_id": list(node_ids)}
    return {"must": [among] if condition is None else [among, condition]}


def _attributes(nodes: Sequence[BaseNode], known: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return metadata that can be filtered, column by column, and the document of each node."""
    documents = [node.ref_doc_id for node in nodes]
    # First, so that it has room in any row.
    columns = metadata.columns(
        [
            {REF_DOC_ID: None} | node.metadata | {REF_DOC_ID: document}
            for node, document in zip(nodes, documents, strict=True)
        ],
        known,
    )
    # Also if it is too long, which is refused: else `delete` would not find the nodes.
    return {**columns, REF_DOC_ID: documents}
