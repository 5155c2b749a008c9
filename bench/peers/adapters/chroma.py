"""Chroma in memory; a database pays for each call, so its rows are capped."""

from __future__ import annotations

import chromadb
import numpy as np
from chromadb.config import Settings

from adapters.peer import F32Array, IdArray, Peer, Setup


class Adapter(Peer):
    """HNSW with 16 neighbours, ef at construction 200; ids are texts there."""

    efforts = (10, 20, 40, 80, 160, 320)
    effort_max = 640
    queries_max = 500
    # An effort is a change of the collection's configuration.
    recall_offsets = (0.0,)
    parameters = "EphemeralClient, max_neighbors=16 ef_construction=200"

    def __init__(self, setup: Setup) -> None:
        self._client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
        space = "l2" if setup.metric == "l2" else "ip"
        graph = {"space": space, "max_neighbors": 16, "ef_construction": 200, "num_threads": 1}
        self._collection = self._client.create_collection("rows", configuration={"hnsw": graph})

    def build(self, rows: F32Array) -> None:
        step = self._client.get_max_batch_size()
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            ids = [str(one) for one in range(first, first + len(part))]
            self._collection.add(ids=ids, embeddings=part)

    def insert(self, one: int, vector: F32Array) -> None:
        self._collection.add(ids=[str(one)], embeddings=vector[None])

    def delete(self, one: int) -> None:
        self._collection.delete(ids=[str(one)])

    def set_effort(self, effort: int) -> None:
        self._collection.modify(configuration={"hnsw": {"ef_search": effort}})

    def query(self, vector: F32Array, k: int) -> IdArray:
        return self.query_batch(vector[None], k)[0]

    def query_batch(self, queries: F32Array, k: int) -> IdArray:
        found = self._collection.query(query_embeddings=queries, n_results=k, include=[])["ids"]
        return np.array([[int(one) for one in ids] for ids in found])
