"""Milvus Lite's server: messages of its own over gRPC. Needs pymilvus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from pymilvus import DataType, MilvusClient
from pymilvus.client.prepare import Prepare
from pymilvus.grpc_gen import milvus_pb2, schema_pb2

from systems import EFFORTS, Connection, K, System

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

_SERVICE = "/milvus.proto.milvus.MilvusService/"
_LIMIT = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class MilvusConnection(Connection):
    """A channel: requests are bytes with the name of their method, and answers are bytes."""

    def __init__(self, port: int) -> None:
        """Connect."""
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=_LIMIT)
        self._channel = channel
        self._methods = {
            name: channel.unary_unary(_SERVICE + name) for name in ("Search", "Insert")
        }

    def send(self, request: tuple[str, bytes]) -> bytes:
        """Send it; a refusal ends the run, also one that only the answer says."""
        method, message = request
        answer = self._methods[method](message)
        kind = milvus_pb2.SearchResults if method == "Search" else milvus_pb2.MutationResult
        status = kind.FromString(answer).status
        if status.code or status.error_code:
            raise SystemExit(f"The server refused: {status.reason}")
        return answer


class MilvusLite(System):
    """``milvus-lite server``, by its interface of gRPC; a graph with 16 neighbours."""

    name = "milvus-lite server"
    efforts = EFFORTS

    def command(self, programs: Path, folder: Path, port: int) -> list[str]:
        """Return what starts it."""
        where = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", str(folder)]
        return [str(programs / "milvus-lite"), "server", *where]

    def create(self, port: int, dimension: int) -> None:
        """Make the collection and its index."""
        client = MilvusClient(f"http://127.0.0.1:{port}")
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        index = client.prepare_index_params()
        graph = {"M": 16, "efConstruction": 200}
        index.add_index("vector", index_type="HNSW", metric_type="COSINE", params=graph)
        client.create_collection("rows", schema=schema, index_params=index)
        client.close()

    def filled(self, port: int) -> None:
        """Make the graph of what was written, and load it."""
        client = MilvusClient(f"http://127.0.0.1:{port}")
        client.flush("rows")
        client.load_collection("rows")
        client.close()

    def connect(self, port: int) -> Connection:
        """Open a connection."""
        return MilvusConnection(port)

    def points(self, first: int, rows: np.ndarray) -> tuple[str, bytes]:
        """Make the request that writes rows."""
        ids = schema_pb2.FieldData(type=schema_pb2.DataType.Int64, field_name="id")
        ids.scalars.long_data.data.extend(range(first, first + len(rows)))
        kind = schema_pb2.DataType.FloatVector
        vectors = schema_pb2.FieldData(type=kind, field_name="vector")
        vectors.vectors.dim = rows.shape[1]
        vectors.vectors.float_vector.data.extend(rows.ravel().tolist())
        message = milvus_pb2.InsertRequest(
            collection_name="rows", fields_data=[ids, vectors], num_rows=len(rows)
        )
        return "Insert", message.SerializeToString()

    def question(self, vector: np.ndarray, effort: int | None) -> tuple[str, bytes]:
        """Make the request for the nearest of a vector."""
        message: Any = Prepare.search_requests_with_expr(
            collection_name="rows",
            data=[vector.tolist()],
            anns_field="vector",
            param={"metric_type": "COSINE", "params": {"ef": effort}},
            limit=K,
        )
        return "Search", message.SerializeToString()

    def ids(self, answer: bytes) -> list[int]:
        """Return the ids of an answer."""
        return list(milvus_pb2.SearchResults.FromString(answer).results.ids.int_id.data)

    def tune(self, port: int, effort: int | None) -> None:
        """Nothing: an effort is part of a question."""
