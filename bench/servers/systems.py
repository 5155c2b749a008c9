"""Servers of vectors: how each is started, filled and asked. What is sent is made beforehand."""

from __future__ import annotations

import http.client
import json
import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

K = 10
"""Neighbours of a query."""

EFFORTS = (10, 20, 40, 80, 160, 320, 640, 1280)
"""Candidates that a graph keeps: the least is taken that finds as much as ours."""


class Connection(ABC):
    """One connection: a request at a time."""

    @abstractmethod
    def send(self, request: Any) -> Any:
        """Send what was made before; return the answer as it came."""


class System(ABC):
    """A server, and the requests that it understands."""

    name: str
    efforts: Sequence[int | None]
    restarts_to_tune = False
    """Whether :meth:`tune` has an effect only on a server that starts again."""

    @abstractmethod
    def command(self, programs: Path, folder: Path, port: int) -> list[str]:
        """Return what starts it."""

    @abstractmethod
    def create(self, port: int, dimension: int) -> None:
        """Make the collection."""

    @abstractmethod
    def filled(self, port: int) -> None:
        """Do what it wants after many rows were written, before it is asked."""

    @abstractmethod
    def connect(self, port: int) -> Connection:
        """Open a connection."""

    @abstractmethod
    def points(self, first: int, rows: np.ndarray) -> Any:
        """Make the request that writes rows under ids from ``first`` on."""

    @abstractmethod
    def question(self, vector: np.ndarray, effort: int | None) -> Any:
        """Make the request for the nearest of a vector."""

    @abstractmethod
    def ids(self, answer: Any) -> list[int]:
        """Return the ids of an answer."""

    @abstractmethod
    def tune(self, port: int, effort: int | None) -> None:
        """Set an effort that is not part of a question."""


class HttpConnection(Connection):
    """HTTP/1.1 over a socket: requests are bytes, and so are the bodies of answers."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> bytes:
        """Send it; a refusal ends the run."""
        self._socket.sendall(request)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        head = received[:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = received[end + 4 :]
        while len(body) < length:
            body += self._more()
        if not head.startswith((b"http/1.1 200", b"http/1.1 201")):
            raise SystemExit(f"The server refused: {body[:500]!r}")
        return body

    def _more(self) -> bytes:
        some = self._socket.recv(1 << 16)
        if not some:
            raise SystemExit("The server closed the connection.")
        return some


def request(method: str, path: str, body: dict[str, Any]) -> bytes:
    """Return a request as it goes over the connection."""
    text = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(text)}\r\n\r\n".encode() + text


def call(port: int, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Make one call on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"content-type": "application/json"}
    connection.request(method, path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"The server refused {path}: {text[:500]!r}")
    return json.loads(text) if text else {}


class VStream(System):
    """Ours, by its interface of HTTP: it decides itself how far a search goes."""

    name = "vstream serve"
    efforts = (None,)

    def command(self, programs: Path, folder: Path, port: int) -> list[str]:
        """Return what starts it."""
        program = str(programs / "vstream")
        return [program, "serve", str(folder), "--listen", f"127.0.0.1:{port}"]

    def create(self, port: int, dimension: int) -> None:
        """Make the collection."""
        vectors = {"size": dimension, "distance": "Cosine"}
        call(port, "PUT", "/collections/rows", {"vectors": vectors})

    def filled(self, port: int) -> None:
        """Nothing: rows are found as soon as they are written."""

    def connect(self, port: int) -> Connection:
        """Open a connection."""
        return HttpConnection(port)

    def points(self, first: int, rows: np.ndarray) -> bytes:
        """Make the request that writes rows, answered when they are on the disk."""
        ids = range(first, first + len(rows))
        points = [{"id": one, "vector": row.tolist()} for one, row in zip(ids, rows, strict=True)]
        return request("PUT", "/collections/rows/points?wait=true", {"points": points})

    def question(self, vector: np.ndarray, effort: int | None) -> bytes:
        """Make the request for the nearest of a vector."""
        body = {"query": vector.tolist(), "limit": K}
        return request("POST", "/collections/rows/points/query", body)

    def ids(self, answer: bytes) -> list[int]:
        """Return the ids of an answer."""
        return [point["id"] for point in json.loads(answer)["result"]["points"]]

    def tune(self, port: int, effort: int | None) -> None:
        """Nothing: it decides itself."""


class Chroma(System):
    """``chroma run``, by its interface of HTTP; a graph with 16 neighbours."""

    name = "chroma run"
    efforts = EFFORTS
    restarts_to_tune = True
    _AT = "/api/v2/tenants/default_tenant/databases/default_database/collections"

    def command(self, programs: Path, folder: Path, port: int) -> list[str]:
        """Return what starts it."""
        where = ["--host", "127.0.0.1", "--port", str(port), "--path", str(folder)]
        return [str(programs / "chroma"), "run", *where]

    def create(self, port: int, dimension: int) -> None:
        """Make the collection."""
        graph = {"space": "cosine", "max_neighbors": 16, "ef_construction": 200}
        body = {"name": "rows", "configuration": {"hnsw": graph}}
        self._rows = f"{self._AT}/{call(port, 'POST', self._AT, body)['id']}"

    def filled(self, port: int) -> None:
        """Nothing: it indexes what was added before it answers."""

    def connect(self, port: int) -> Connection:
        """Open a connection."""
        return HttpConnection(port)

    def points(self, first: int, rows: np.ndarray) -> bytes:
        """Make the request that writes rows."""
        ids = [str(one) for one in range(first, first + len(rows))]
        return request("POST", f"{self._rows}/add", {"ids": ids, "embeddings": rows.tolist()})

    def question(self, vector: np.ndarray, effort: int | None) -> bytes:
        """Make the request for the nearest of a vector."""
        body = {"query_embeddings": [vector.tolist()], "n_results": K, "include": []}
        return request("POST", f"{self._rows}/query", body)

    def ids(self, answer: bytes) -> list[int]:
        """Return the ids of an answer."""
        return [int(one) for one in json.loads(answer)["ids"][0]]

    def tune(self, port: int, effort: int | None) -> None:
        """Set the candidates of all searches."""
        call(port, "PUT", self._rows, {"new_configuration": {"hnsw": {"ef_search": effort}}})
